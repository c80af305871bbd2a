-- +goose Up

-- Items of batches that are errors, one row each, from when their batch is read until a retry
-- succeeds. state is error, or, of those that are tried again, waiting (for due_at and for
-- room in the queue) or queued (as the item item_id of the queue).
CREATE TABLE millrace.batch_error (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id      text        NOT NULL,
    batch_index integer     NOT NULL,
    position    integer     NOT NULL CHECK (position >= 0),
    state       text        NOT NULL CHECK (state IN ('error', 'waiting', 'queued')),
    version     integer     NOT NULL DEFAULT 0 CHECK (version >= 0), -- outcomes that retries have brought
    tries       integer     NOT NULL DEFAULT 0, -- of these, since the item was last an error that nobody retried
    generation  integer     NOT NULL DEFAULT 0, -- how often it was an error that nobody retried, but for the first time
    project_id  text        NOT NULL, -- empty: none; the group in the queue
    content_id  text        NOT NULL, -- empty: none
    category    text        NOT NULL,
    code        text        NOT NULL,
    print       bigint      NOT NULL, -- stands for the fingerprint of the message
    queue       text        NOT NULL,
    due_at      timestamptz NOT NULL,
    item_id     bigint, -- of its last retry
    fault       text, -- why it could not be put into the queue
    task        text        NOT NULL, -- payload of its items
    read_at     timestamptz NOT NULL,
    CONSTRAINT batch_error_place UNIQUE (job_id, batch_index, position),
    CONSTRAINT batch_error_queued CHECK (state <> 'queued' OR item_id IS NOT NULL)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX batch_error_due ON millrace.batch_error (queue, project_id, due_at, id) WHERE state = 'waiting';
CREATE UNIQUE INDEX batch_error_item ON millrace.batch_error (item_id) WHERE item_id IS NOT NULL;
CREATE INDEX batch_error_read ON millrace.batch_error (read_at) WHERE state = 'error';

-- +goose Down

UPDATE millrace.batch SET error = error + retrying, retrying = 0 WHERE retrying > 0;
DROP TABLE millrace.batch_error;
