-- +goose Up

-- What changes with each run of a job stands in a small row of its own, many of which share a
-- page: in a burst, the page of each row that changes is written whole.
--
-- job_status has what the scheduler writes, job_settings what events and people set. Both have
-- one row for each job, and jobs shows them as one. Who changes a row of either has locked that
-- of job_status. The consumer of SOURCES and the commands lock rows in the order of their ids,
-- after rows of source_state; the scheduler locks with SKIP LOCKED and waits for nobody.
CREATE TABLE millrace.job_status (
    id              uuid PRIMARY KEY REFERENCES millrace.jobs ON DELETE CASCADE,
    next_run_at     timestamptz NOT NULL,
    failure_count   integer  NOT NULL DEFAULT 0 CHECK (failure_count >= 0),
    priority        smallint NOT NULL CHECK (priority BETWEEN 0 AND 100),
    running         smallint NOT NULL DEFAULT 0 CHECK (running >= 0),
    skip_next       boolean  NOT NULL DEFAULT false,
    status          text     NOT NULL CHECK (status IN ('pending', 'running', 'paused', 'failed', 'orphaned')),
    paused_by       text     CHECK (paused_by IN ('user', 'source')),
    forced_at       timestamptz,
    buffered_due_at timestamptz,
    wait_until      timestamptz,
    wake_at         timestamptz,
    catch_up_from   timestamptz,
    last_failure_at timestamptz,
    backoff_until   timestamptz,
    due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN status <> 'orphaned' THEN LEAST(forced_at, wake_at, GREATEST(next_run_at, backoff_until, wait_until)) END
    ) STORED,
    CHECK ((status = 'paused') = (paused_by IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 5);

INSERT INTO millrace.job_status (id, next_run_at, failure_count, priority, running, skip_next, status, paused_by, forced_at,
    buffered_due_at, wait_until, wake_at, catch_up_from, last_failure_at, backoff_until)
SELECT id, next_run_at, failure_count, priority, running, skip_next, status, paused_by, forced_at, buffered_due_at, wait_until,
    wake_at, catch_up_from, last_failure_at, backoff_until
FROM millrace.jobs ORDER BY id;

-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT attname FROM pg_attribute WHERE attrelid = 'millrace.job_status'::regclass AND attnum > 0 LOOP
        EXECUTE format('COMMENT ON COLUMN millrace.job_status.%I IS %L', name, (
            SELECT col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = 'millrace.jobs'::regclass AND attname = name
        ));
    END LOOP;
END $$;
-- +goose StatementEnd

DROP TRIGGER jobs_made ON millrace.jobs;
DROP TRIGGER jobs_changed ON millrace.jobs;
DROP TRIGGER jobs_gone ON millrace.jobs;
ALTER TABLE millrace.jobs DROP COLUMN due_at;
ALTER TABLE millrace.jobs RENAME TO job_settings;
ALTER TABLE millrace.job_settings
    DROP COLUMN next_run_at, DROP COLUMN failure_count, DROP COLUMN priority, DROP COLUMN running, DROP COLUMN skip_next,
    DROP COLUMN status, DROP COLUMN paused_by, DROP COLUMN forced_at, DROP COLUMN buffered_due_at, DROP COLUMN wait_until,
    DROP COLUMN wake_at, DROP COLUMN catch_up_from, DROP COLUMN last_failure_at, DROP COLUMN backoff_until;
COMMENT ON TABLE millrace.job_settings IS NULL;

-- While samples of a table are read, index entries of rows that have gone since stay, and each
-- look for due jobs passes those of all jobs that have run: so samples are read seldom.
ALTER TABLE millrace.job_settings SET (autovacuum_analyze_scale_factor = 0.5);
ALTER TABLE millrace.job_schedule SET (autovacuum_analyze_scale_factor = 0.5);

CREATE INDEX jobs_due ON millrace.job_status (priority DESC, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_status ON millrace.job_status (status, id) WHERE status IN ('running', 'paused', 'failed', 'orphaned');
CREATE INDEX jobs_resting ON millrace.job_status (backoff_until) WHERE backoff_until IS NOT NULL;
CREATE TRIGGER jobs_made AFTER INSERT ON millrace.job_status
    REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_changed AFTER UPDATE ON millrace.job_status
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_gone AFTER DELETE ON millrace.job_status
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();

CREATE VIEW millrace.jobs AS
SELECT s.id, c.source_id, c.source_name, c.url, c.rate_limit, c.max_depth, c.selectors, s.status, s.paused_by, c.auto_managed,
    c.origin, c.migrated_at, c.override, c.schedule_kind, c.interval_minutes, c.interval_type, c.cron, c.time_zone, c.jitter_seconds,
    c.schedule_version, s.next_run_at, s.due_at, s.forced_at, s.skip_next, s.wait_until, s.wake_at, c.crawl_window_start,
    c.crawl_window_end, c.crawl_window_days, c.crawl_window_zone, s.priority, c.max_concurrent, c.overlap_policy, s.buffered_due_at,
    c.catch_up_policy, c.catch_up_window_seconds, c.catch_up_cap, c.catch_up_spread_seconds, s.catch_up_from, s.running,
    s.failure_count, s.last_failure_at, s.backoff_until, c.last_event_seq, c.version, c.created_at, c.updated_at
FROM millrace.job_status AS s JOIN millrace.job_settings AS c ON c.id = s.id;
COMMENT ON VIEW millrace.jobs IS 'Jobs that crawl sources, one row for each source.';

-- +goose StatementBegin
DO $$
DECLARE
    name text;
    about text;
BEGIN
    FOR name, about IN
        SELECT attname, col_description(attrelid, attnum) FROM pg_attribute
        WHERE attrelid IN ('millrace.job_settings'::regclass, 'millrace.job_status'::regclass) AND attnum > 0 AND NOT attisdropped
    LOOP
        EXECUTE format('COMMENT ON COLUMN millrace.jobs.%I IS %L', name, about);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

DROP VIEW millrace.jobs;
ALTER TABLE millrace.job_schedule RESET (autovacuum_analyze_scale_factor);
ALTER TABLE millrace.job_settings SET (autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE millrace.job_settings RENAME TO jobs;
ALTER TABLE millrace.jobs
    ADD COLUMN status text CHECK (status IN ('pending', 'running', 'paused', 'failed', 'orphaned')),
    ADD COLUMN paused_by text CHECK (paused_by IN ('user', 'source')),
    ADD COLUMN next_run_at timestamptz,
    ADD COLUMN forced_at timestamptz,
    ADD COLUMN skip_next boolean NOT NULL DEFAULT false,
    ADD COLUMN priority smallint CHECK (priority BETWEEN 0 AND 100),
    ADD COLUMN buffered_due_at timestamptz,
    ADD COLUMN running smallint NOT NULL DEFAULT 0 CHECK (running >= 0),
    ADD COLUMN failure_count integer NOT NULL DEFAULT 0 CHECK (failure_count >= 0),
    ADD COLUMN last_failure_at timestamptz,
    ADD COLUMN backoff_until timestamptz,
    ADD COLUMN wait_until timestamptz,
    ADD COLUMN wake_at timestamptz,
    ADD COLUMN catch_up_from timestamptz;
UPDATE millrace.jobs AS j SET status = s.status, paused_by = s.paused_by, next_run_at = s.next_run_at, forced_at = s.forced_at,
    skip_next = s.skip_next, priority = s.priority, buffered_due_at = s.buffered_due_at, running = s.running,
    failure_count = s.failure_count, last_failure_at = s.last_failure_at, backoff_until = s.backoff_until, wait_until = s.wait_until,
    wake_at = s.wake_at, catch_up_from = s.catch_up_from
FROM millrace.job_status AS s WHERE s.id = j.id;
ALTER TABLE millrace.jobs
    ALTER COLUMN status SET NOT NULL, ALTER COLUMN next_run_at SET NOT NULL, ALTER COLUMN priority SET NOT NULL,
    ADD CHECK ((status = 'paused') = (paused_by IS NOT NULL)),
    ADD COLUMN due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN status <> 'orphaned' THEN LEAST(forced_at, wake_at, GREATEST(next_run_at, backoff_until, wait_until)) END
    ) STORED;
COMMENT ON TABLE millrace.jobs IS 'Jobs that crawl sources, one row for each source.';
-- +goose StatementBegin
DO $$
DECLARE
    name text;
    about text;
BEGIN
    FOR name, about IN
        SELECT attname, col_description(attrelid, attnum) FROM pg_attribute
        WHERE attrelid = 'millrace.job_status'::regclass AND attnum > 0
    LOOP
        EXECUTE format('COMMENT ON COLUMN millrace.jobs.%I IS %L', name, about);
    END LOOP;
END $$;
-- +goose StatementEnd
DROP TABLE millrace.job_status;
CREATE INDEX jobs_due ON millrace.jobs (priority DESC, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_status ON millrace.jobs (status, id);
CREATE INDEX jobs_resting ON millrace.jobs (backoff_until) WHERE backoff_until IS NOT NULL;
CREATE TRIGGER jobs_made AFTER INSERT ON millrace.jobs
    REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_changed AFTER UPDATE ON millrace.jobs
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_gone AFTER DELETE ON millrace.jobs
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
