-- +goose Up

-- Runs of jobs. A run is one item of the queue crawl, and is made in the transaction
-- that enqueues the item and writes the due time's row into the ledger: there is no
-- run without an item, and no item without a run. item_id is unique, so the end of an
-- item, however often it is told, ends one run.
CREATE TABLE millrace.executions (
    id             uuid PRIMARY KEY,
    job_id         uuid    NOT NULL,
    source_id      uuid    NOT NULL,
    due_at         timestamptz NOT NULL,
    forced         boolean NOT NULL DEFAULT false,
    attempt        integer NOT NULL DEFAULT 1 CHECK (attempt > 0),
    status         text    NOT NULL CHECK (status IN ('queued', 'running', 'success', 'failed', 'cancelled')),
    item_id        bigint  UNIQUE,
    queued_at      timestamptz NOT NULL DEFAULT now(),
    started_at     timestamptz,
    completed_at   timestamptz,
    duration_seconds double precision CHECK (duration_seconds >= 0),
    articles_count integer NOT NULL DEFAULT 0 CHECK (articles_count >= 0),
    error          text,
    CHECK ((status IN ('success', 'failed', 'cancelled')) = (completed_at IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX executions_source ON millrace.executions (source_id, id);
CREATE INDEX executions_ended ON millrace.executions (source_id, completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX executions_completed ON millrace.executions (completed_at) WHERE completed_at IS NOT NULL;

COMMENT ON TABLE millrace.executions IS 'Runs of jobs, one row each. They stay when a job is deleted.';
COMMENT ON COLUMN millrace.executions.id IS 'Names the run. A UUID of version 7: ids are in the order in which runs were made.';
COMMENT ON COLUMN millrace.executions.job_id IS 'The job.';
COMMENT ON COLUMN millrace.executions.source_id IS 'The source that it crawls.';
COMMENT ON COLUMN millrace.executions.due_at IS 'The due time that it is for.';
COMMENT ON COLUMN millrace.executions.forced IS 'Whether somebody asked for it.';
COMMENT ON COLUMN millrace.executions.attempt IS 'Which attempt at this due time it is, from 1.';
COMMENT ON COLUMN millrace.executions.status IS 'queued: its item waits for a worker; running: a worker has it; success, failed or cancelled.';
COMMENT ON COLUMN millrace.executions.item_id IS 'Its item in the queue crawl; null: it was recorded without one.';
COMMENT ON COLUMN millrace.executions.queued_at IS 'When its item was enqueued.';
COMMENT ON COLUMN millrace.executions.started_at IS 'When a worker took the item.';
COMMENT ON COLUMN millrace.executions.completed_at IS 'When it ended.';
COMMENT ON COLUMN millrace.executions.duration_seconds IS 'How long it took, by the worker, or else from started_at to completed_at.';
COMMENT ON COLUMN millrace.executions.articles_count IS 'Articles that it found.';
COMMENT ON COLUMN millrace.executions.error IS 'Why it failed.';

-- What became of each due time of each job: exactly one row each, by the primary key.
-- The scheduler writes it in the transaction that moves jobs.next_run_at beyond that
-- due time and, where the job runs, makes the run and its item. So a scheduler that is
-- killed leaves all of that or nothing, and a second one that decides about the same
-- due time is refused by the key.
CREATE TABLE millrace.job_ledger (
    job_id       uuid NOT NULL,
    due_at       timestamptz NOT NULL,
    outcome      text NOT NULL CHECK (outcome IN
        ('ran', 'caught_up', 'buffered', 'skipped', 'coalesced', 'outside_window', 'backoff', 'paused', 'expired')),
    forced       boolean NOT NULL DEFAULT false,
    execution_id uuid,
    reason       text NOT NULL DEFAULT '',
    decided_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, due_at),
    CHECK (outcome NOT IN ('ran', 'caught_up') OR execution_id IS NOT NULL)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX job_ledger_due ON millrace.job_ledger USING brin (due_at) WITH (autosummarize = on);

COMMENT ON TABLE millrace.job_ledger IS 'What became of each due time of each job.';
COMMENT ON COLUMN millrace.job_ledger.job_id IS 'The job.';
COMMENT ON COLUMN millrace.job_ledger.due_at IS 'The due time; of a run that somebody asked for, when he did.';
COMMENT ON COLUMN millrace.job_ledger.outcome IS 'ran; caught_up: ran late, since no scheduler was there in time; buffered: waits for the run before it; skipped: the run before it was under way, or somebody asked for it; coalesced: a later due time ran for it; outside_window; backoff; paused; expired: too old to be caught up.';
COMMENT ON COLUMN millrace.job_ledger.forced IS 'Whether somebody asked for the run.';
COMMENT ON COLUMN millrace.job_ledger.execution_id IS 'The run, if there was one.';
COMMENT ON COLUMN millrace.job_ledger.reason IS 'Why, in words.';
COMMENT ON COLUMN millrace.job_ledger.decided_at IS 'When the scheduler decided it.';

-- +goose Down

DROP TABLE millrace.job_ledger, millrace.executions;
