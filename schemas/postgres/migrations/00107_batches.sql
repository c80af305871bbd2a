-- +goose Up

-- Batches of crawled items, one row each, once all of their items have outcomes. The
-- numbers add up at every instant. An item that is tried again moves from retrying to ok
-- or error in the transaction that ends its attempt.
CREATE TABLE millrace.batch (
    job_id        text    NOT NULL,
    batch_index   integer NOT NULL CHECK (batch_index >= 0),
    project_id    text,
    platform      text    NOT NULL DEFAULT '',
    task_type     text    NOT NULL DEFAULT '',
    keyword       text    NOT NULL DEFAULT '',
    format        text    NOT NULL CHECK (format IN ('event', 'legacy', 'inline')),
    bucket        text,
    object_key    text,
    announced     integer CHECK (announced >= 0),
    content_count integer NOT NULL CHECK (content_count >= 0),
    ok            integer NOT NULL CHECK (ok >= 0),
    error         integer NOT NULL CHECK (error >= 0),
    retrying      integer NOT NULL DEFAULT 0 CHECK (retrying >= 0),
    errors        jsonb   NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(errors) = 'object'),
    warnings      jsonb   NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(warnings) = 'array'),
    conflict      jsonb,
    content_hash  bytea   NOT NULL,
    announced_at  timestamptz NOT NULL,
    read_at       timestamptz NOT NULL,
    changed_at    timestamptz NOT NULL,
    seq           bigint  NOT NULL,
    PRIMARY KEY (job_id, batch_index),
    CONSTRAINT batch_sum CHECK (ok + error + retrying = content_count),
    CONSTRAINT batch_object CHECK ((bucket IS NULL) = (object_key IS NULL) AND (bucket IS NULL) = (format = 'inline'))
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX batch_read ON millrace.batch (read_at DESC, job_id, batch_index);
CREATE INDEX batch_project ON millrace.batch (project_id, read_at DESC, job_id, batch_index);
CREATE INDEX batch_platform ON millrace.batch (platform, read_at DESC, job_id, batch_index);
CREATE INDEX batch_retrying ON millrace.batch (read_at DESC, job_id, batch_index) WHERE retrying > 0;
CREATE INDEX batch_conflict ON millrace.batch (read_at DESC, job_id, batch_index) WHERE conflict IS NOT NULL;

COMMENT ON TABLE millrace.batch IS 'Batches of crawled items, one row each, written when all outcomes of the batch are in ClickHouse. ok + error + retrying = content_count.';
COMMENT ON COLUMN millrace.batch.job_id IS 'The job that crawled the items. legacy:<bucket>/<key> stands for a legacy message without a job.';
COMMENT ON COLUMN millrace.batch.batch_index IS 'Which batch of the job it is.';
COMMENT ON COLUMN millrace.batch.project_id IS 'The project that the name of the job says; null: a dry run, or a name that says none.';
COMMENT ON COLUMN millrace.batch.platform IS 'The platform that was crawled, as announced; empty: not said.';
COMMENT ON COLUMN millrace.batch.task_type IS 'The type of the crawl task, as announced; empty: not said.';
COMMENT ON COLUMN millrace.batch.keyword IS 'The keyword that was searched for, as announced; empty: not said.';
COMMENT ON COLUMN millrace.batch.format IS 'How it was announced: event (data.collected), legacy (data_ref) or inline.';
COMMENT ON COLUMN millrace.batch.bucket IS 'The bucket that the items were read from; null: they were in the message.';
COMMENT ON COLUMN millrace.batch.object_key IS 'The key of the object in the bucket; null: the items were in the message.';
COMMENT ON COLUMN millrace.batch.announced IS 'How many items the message announced; null: it did not say.';
COMMENT ON COLUMN millrace.batch.content_count IS 'How many items the batch has.';
COMMENT ON COLUMN millrace.batch.ok IS 'Items that were crawled.';
COMMENT ON COLUMN millrace.batch.error IS 'Items that are errors, and are not tried again.';
COMMENT ON COLUMN millrace.batch.retrying IS 'Items that are errors, and are being tried again.';
COMMENT ON COLUMN millrace.batch.errors IS 'How many items have each error code at present, those that are being tried again included: {"RATE_LIMITED": 3}.';
COMMENT ON COLUMN millrace.batch.warnings IS 'What is unusual about the batch: [{"code": "count_announced", "text": "…"}].';
COMMENT ON COLUMN millrace.batch.conflict IS 'The first other content that was read for the batch, and does not count: {"at": …, "content_hash": …, "content_count": …, "object": …, "seq": …}; null: none.';
COMMENT ON COLUMN millrace.batch.content_hash IS 'SHA-256 of the content that counts, as it is after decompression.';
COMMENT ON COLUMN millrace.batch.announced_at IS 'When the stream received the message that announced it.';
COMMENT ON COLUMN millrace.batch.read_at IS 'When the stream received what was read.';
COMMENT ON COLUMN millrace.batch.changed_at IS 'When the row last changed.';
COMMENT ON COLUMN millrace.batch.seq IS 'The sequence of what was read in the stream that carries it.';

-- +goose Down
DROP TABLE millrace.batch;
