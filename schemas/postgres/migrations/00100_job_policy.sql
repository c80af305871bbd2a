-- +goose Up

-- How failed runs are tried again, and how long a job rests, become settings of a job.
ALTER TABLE millrace.job_settings
    ADD COLUMN max_attempts         smallint NOT NULL DEFAULT 1 CHECK (max_attempts BETWEEN 1 AND 100),
    ADD COLUMN retry_delay_seconds  integer  NOT NULL DEFAULT 60 CHECK (retry_delay_seconds BETWEEN 0 AND 86400),
    ADD COLUMN backoff_base_minutes integer CHECK (backoff_base_minutes BETWEEN 1 AND 527040),
    ADD COLUMN backoff_max_minutes  integer  NOT NULL DEFAULT 1440 CHECK (backoff_max_minutes BETWEEN 1 AND 527040);
COMMENT ON COLUMN millrace.job_settings.interval_minutes IS 'Minutes from one due time to the next.';
COMMENT ON COLUMN millrace.job_settings.max_attempts IS 'Attempts of a run before it has failed.';
COMMENT ON COLUMN millrace.job_settings.retry_delay_seconds IS 'Seconds from a failed attempt of a run to the next, doubled for each further attempt.';
COMMENT ON COLUMN millrace.job_settings.backoff_base_minutes IS 'Minutes that are doubled for each failed run in a row: the job rests as long; null: interval_minutes.';
COMMENT ON COLUMN millrace.job_settings.backoff_max_minutes IS 'The longest that a job rests after failed runs, in minutes.';

-- active tells runs that a worker has from those that wait in the queue. A due time within a
-- backoff has its row in the ledger at once, and the last of them runs when the backoff ends.
DROP VIEW millrace.jobs;
DROP INDEX millrace.jobs_due;
ALTER TABLE millrace.job_status
    DROP COLUMN due_at,
    ADD COLUMN active          smallint NOT NULL DEFAULT 0 CHECK (active >= 0),
    ADD COLUMN buffered_forced boolean  NOT NULL DEFAULT false,
    ADD COLUMN resting_due_at  timestamptz,
    ADD COLUMN last_ended_at   timestamptz;
ALTER TABLE millrace.job_status
    ADD COLUMN due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN status <> 'orphaned' THEN LEAST(forced_at, wake_at, GREATEST(next_run_at, wait_until),
            CASE WHEN resting_due_at IS NOT NULL THEN backoff_until END) END
    ) STORED;
CREATE INDEX jobs_due ON millrace.job_status (priority DESC, due_at) WHERE due_at IS NOT NULL;
COMMENT ON COLUMN millrace.job_status.status IS 'pending: waits for its next run, or for a worker; running: a worker has a run; paused: does not run; failed: five runs in a row have failed, and it still runs again after each backoff; orphaned: its source does not exist.';
COMMENT ON COLUMN millrace.job_status.running IS 'How many of its runs are under way: those in the queue, and those that a worker has.';
COMMENT ON COLUMN millrace.job_status.active IS 'How many of its runs a worker has.';
COMMENT ON COLUMN millrace.job_status.buffered_forced IS 'Whether somebody asked for the run of buffered_due_at.';
COMMENT ON COLUMN millrace.job_status.resting_due_at IS 'The due time that runs when the backoff ends; null: none does.';
COMMENT ON COLUMN millrace.job_status.last_ended_at IS 'When a run last ended with success or failed; null: none has.';
COMMENT ON COLUMN millrace.job_status.due_at IS 'When a scheduler has to look at it next: next_run_at, or wait_until where that is later; or forced_at, wake_at or the end of a backoff after which it runs, where these are earlier. A paused job has one too: its due times get their rows in the ledger. Null: never.';

UPDATE millrace.job_status AS j SET active = e.active, last_ended_at = e.ended
FROM (
    SELECT job_id, count(*) FILTER (WHERE status = 'running') AS active,
        max(completed_at) FILTER (WHERE status IN ('success', 'failed')) AS ended
    FROM millrace.executions GROUP BY job_id
) AS e
WHERE e.job_id = j.id;
UPDATE millrace.job_status SET status = CASE WHEN failure_count >= 5 THEN 'failed' ELSE 'pending' END
WHERE status = 'running' AND active = 0;

-- How many jobs have begun to run soon, of late: more than a few are spread over their intervals.
CREATE INDEX job_schedule_begun ON millrace.job_schedule (from_at) WHERE reason IN ('created', 'enabled');

-- Settings that a list of sources has given to jobs, until they are those of the job.
CREATE TABLE millrace.pending_override (
    source_id uuid PRIMARY KEY REFERENCES millrace.source ON DELETE CASCADE,
    settings  jsonb NOT NULL -- a draft of an override
);

CREATE VIEW millrace.jobs AS
SELECT s.id, c.source_id, c.source_name, c.url, c.rate_limit, c.max_depth, c.selectors, s.status, s.paused_by, c.auto_managed,
    c.origin, c.migrated_at, c.override, c.schedule_kind, c.interval_minutes, c.interval_type, c.cron, c.time_zone, c.jitter_seconds,
    c.schedule_version, s.next_run_at, s.due_at, s.forced_at, s.skip_next, s.wait_until, s.wake_at, c.crawl_window_start,
    c.crawl_window_end, c.crawl_window_days, c.crawl_window_zone, s.priority, c.max_concurrent, c.overlap_policy, s.buffered_due_at,
    c.catch_up_policy, c.catch_up_window_seconds, c.catch_up_cap, c.catch_up_spread_seconds, s.catch_up_from, s.running,
    s.failure_count, s.last_failure_at, s.backoff_until, c.last_event_seq, c.version, c.created_at, c.updated_at,
    c.max_attempts, c.retry_delay_seconds, c.backoff_base_minutes, c.backoff_max_minutes, s.active, s.buffered_forced,
    s.resting_due_at, s.last_ended_at
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

DROP TABLE millrace.pending_override;
DROP INDEX millrace.job_schedule_begun;
DROP VIEW millrace.jobs;
ALTER TABLE millrace.job_settings
    DROP COLUMN max_attempts, DROP COLUMN retry_delay_seconds, DROP COLUMN backoff_base_minutes, DROP COLUMN backoff_max_minutes;

-- The table is made anew: the migrations before go down only where it never had other columns.
CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM millrace.job_status;
CREATE TEMP TABLE about ON COMMIT DROP AS
SELECT attname AS name, col_description(attrelid, attnum) AS about FROM pg_attribute
WHERE attrelid = 'millrace.job_status'::regclass AND attnum > 0 AND NOT attisdropped;
DROP TABLE millrace.job_status;
CREATE TABLE millrace.job_status (
    id              uuid PRIMARY KEY REFERENCES millrace.job_settings ON DELETE CASCADE,
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
FROM kept ORDER BY id;
CREATE INDEX jobs_due ON millrace.job_status (priority DESC, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_status ON millrace.job_status (status, id) WHERE status IN ('running', 'paused', 'failed', 'orphaned');
CREATE INDEX jobs_resting ON millrace.job_status (backoff_until) WHERE backoff_until IS NOT NULL;
CREATE TRIGGER jobs_made AFTER INSERT ON millrace.job_status
    REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_changed AFTER UPDATE ON millrace.job_status
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_gone AFTER DELETE ON millrace.job_status
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER job_stops AFTER UPDATE OF status ON millrace.job_status
    FOR EACH ROW WHEN (NEW.running > 0 AND NEW.status IN ('paused', 'orphaned') AND OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION millrace.note_job_stop();
CREATE TRIGGER job_deletions AFTER DELETE ON millrace.job_status
    FOR EACH ROW WHEN (OLD.running > 0)
    EXECUTE FUNCTION millrace.note_job_stop();
-- +goose StatementBegin
DO $$
DECLARE
    column_name text;
    text_of text;
BEGIN
    FOR column_name, text_of IN SELECT a.name, a.about FROM about AS a JOIN pg_attribute AS p ON p.attname = a.name
        WHERE p.attrelid = 'millrace.job_status'::regclass AND p.attnum > 0
    LOOP
        EXECUTE format('COMMENT ON COLUMN millrace.job_status.%I IS %L', column_name, text_of);
    END LOOP;
END $$;
-- +goose StatementEnd
UPDATE millrace.job_status SET status = 'running' WHERE running > 0 AND status IN ('pending', 'failed');

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
