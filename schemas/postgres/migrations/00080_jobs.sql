-- +goose Up

-- What events have said of each source. Each field carries the stream sequence of the
-- event that set it last (field_seqs, in the order of the columns), so events may be
-- applied in any order: the one with the higher sequence counts. A source that was
-- deleted keeps its row, so that an event of before its deletion changes nothing.
CREATE TABLE millrace.source_state (
    source_id     uuid PRIMARY KEY,
    name          text    NOT NULL,
    url           text    NOT NULL,
    rate_limit    integer NOT NULL,
    max_depth     integer NOT NULL,
    enabled       boolean NOT NULL,
    selectors     json    NOT NULL,
    priority      text    NOT NULL,
    own           boolean NOT NULL, -- whether it was in the table source; others tell of sources of their own
    field_seqs    bigint[] NOT NULL CHECK (cardinality(field_seqs) = 7),
    created_seq   bigint  NOT NULL, -- of the event that made it; 0: it was found in the table source
    creation      json    NOT NULL, -- the fields as that event has them
    deleted_seq   bigint  NOT NULL DEFAULT 0, -- of the event that deleted it last; 0: none has
    last_seq      bigint  NOT NULL, -- the highest of an event that was applied
    last_event_at timestamptz NOT NULL -- the latest time of an event that was applied
) WITH (fillfactor = 80);

-- One job for each source that is crawled: when, how often, and how its last runs
-- ended.
--
-- Who changes a row has locked it. The consumer of SOURCES and the commands lock rows
-- in the order of their ids, after rows of source_state; the scheduler locks with SKIP
-- LOCKED and waits for nobody.
CREATE TABLE millrace.jobs (
    id               uuid PRIMARY KEY,
    source_id        uuid    NOT NULL UNIQUE,
    source_name      text    NOT NULL,
    url              text    NOT NULL,
    rate_limit       integer NOT NULL,
    max_depth        integer NOT NULL,
    selectors        json    NOT NULL,

    status           text    NOT NULL CHECK (status IN ('pending', 'running', 'paused', 'failed', 'orphaned')),
    paused_by        text    CHECK (paused_by IN ('user', 'source')),
    auto_managed     boolean NOT NULL,
    origin           text    NOT NULL CHECK (origin IN ('event', 'reconciliation', 'manual')),
    migrated_at      timestamptz,
    override         jsonb   NOT NULL DEFAULT '{}',

    schedule_kind    text    NOT NULL CHECK (schedule_kind IN ('interval', 'cron')),
    interval_minutes integer NOT NULL CHECK (interval_minutes BETWEEN 1 AND 527040),
    interval_type    text    NOT NULL CHECK (interval_type IN ('minutes', 'hours')),
    cron             text,
    time_zone        text    NOT NULL DEFAULT 'UTC',
    jitter_seconds   integer NOT NULL DEFAULT 0 CHECK (jitter_seconds >= 0),
    schedule_version bigint  NOT NULL DEFAULT 1,
    next_run_at      timestamptz NOT NULL,
    forced_at        timestamptz,
    skip_next        boolean NOT NULL DEFAULT false,

    crawl_window_start smallint CHECK (crawl_window_start BETWEEN 0 AND 23),
    crawl_window_end   smallint CHECK (crawl_window_end BETWEEN 0 AND 23),
    crawl_window_days  smallint[] NOT NULL DEFAULT '{}',
    crawl_window_zone  text    NOT NULL DEFAULT 'UTC',

    priority         smallint NOT NULL CHECK (priority BETWEEN 0 AND 100),
    max_concurrent   smallint NOT NULL CHECK (max_concurrent BETWEEN 1 AND 100),
    overlap_policy   text    NOT NULL DEFAULT 'skip' CHECK (overlap_policy IN ('skip', 'buffer_one', 'cancel_other', 'allow')),
    buffered_due_at  timestamptz,
    catch_up_policy  text    NOT NULL DEFAULT 'one' CHECK (catch_up_policy IN ('none', 'one', 'recent', 'all')),
    catch_up_window_seconds integer NOT NULL DEFAULT 86400 CHECK (catch_up_window_seconds >= 0),
    catch_up_cap     integer NOT NULL DEFAULT 10 CHECK (catch_up_cap >= 0),
    catch_up_spread_seconds integer NOT NULL DEFAULT 0 CHECK (catch_up_spread_seconds >= 0),

    running          smallint NOT NULL DEFAULT 0 CHECK (running >= 0),
    failure_count    integer NOT NULL DEFAULT 0 CHECK (failure_count >= 0),
    last_failure_at  timestamptz,
    backoff_until    timestamptz,

    last_event_seq   bigint NOT NULL DEFAULT 0,
    version          bigint NOT NULL DEFAULT 1,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),

    due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN status <> 'orphaned' THEN LEAST(forced_at, GREATEST(next_run_at, backoff_until)) END
    ) STORED,

    CHECK ((schedule_kind = 'cron') = (cron IS NOT NULL)),
    CHECK ((crawl_window_start IS NULL) = (crawl_window_end IS NULL)),
    CHECK ((status = 'paused') = (paused_by IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX jobs_due ON millrace.jobs (due_at, priority DESC) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_status ON millrace.jobs (status, id);

COMMENT ON TABLE millrace.jobs IS 'Jobs that crawl sources, one row for each source.';
COMMENT ON COLUMN millrace.jobs.id IS 'Names the job. A UUID of version 7: ids are in the order in which jobs were made.';
COMMENT ON COLUMN millrace.jobs.source_id IS 'The source that it crawls.';
COMMENT ON COLUMN millrace.jobs.source_name IS 'The name of the source.';
COMMENT ON COLUMN millrace.jobs.url IS 'Where the crawl begins.';
COMMENT ON COLUMN millrace.jobs.rate_limit IS 'Requests a second that the source allows.';
COMMENT ON COLUMN millrace.jobs.max_depth IS 'How many links away from its URL the source is crawled.';
COMMENT ON COLUMN millrace.jobs.selectors IS 'Where pages of the source have their parts.';
COMMENT ON COLUMN millrace.jobs.status IS 'pending: waits for its next run; running: a run is under way; paused: does not run; failed: five runs in a row have failed, and it still runs again after each backoff; orphaned: its source does not exist.';
COMMENT ON COLUMN millrace.jobs.paused_by IS 'Of a paused job, who paused it: user, or source, which is disabled.';
COMMENT ON COLUMN millrace.jobs.auto_managed IS 'Whether its settings follow those of its source.';
COMMENT ON COLUMN millrace.jobs.origin IS 'What made it: event, reconciliation or manual.';
COMMENT ON COLUMN millrace.jobs.migrated_at IS 'When a manual job became auto-managed by the migration; null: it did not.';
COMMENT ON COLUMN millrace.jobs.override IS 'Settings that people have set in place of those that follow from the source, by the name of the setting.';
COMMENT ON COLUMN millrace.jobs.schedule_kind IS 'interval or cron.';
COMMENT ON COLUMN millrace.jobs.interval_minutes IS 'Minutes from one due time to the next; of a cron schedule, the base of its backoff.';
COMMENT ON COLUMN millrace.jobs.interval_type IS 'hours, where the interval is a whole number of hours, else minutes.';
COMMENT ON COLUMN millrace.jobs.cron IS 'The cron expression of a cron schedule.';
COMMENT ON COLUMN millrace.jobs.time_zone IS 'The time zone of the cron expression.';
COMMENT ON COLUMN millrace.jobs.jitter_seconds IS 'A run begins up to this long after its due time.';
COMMENT ON COLUMN millrace.jobs.schedule_version IS 'The row of job_schedule that counts now.';
COMMENT ON COLUMN millrace.jobs.next_run_at IS 'The first due time that the ledger does not have yet. It may have passed.';
COMMENT ON COLUMN millrace.jobs.forced_at IS 'When somebody asked for a run at once that has not begun yet; null: nobody did. Neither backoff nor window holds it up.';
COMMENT ON COLUMN millrace.jobs.skip_next IS 'Whether the next due time is to be skipped.';
COMMENT ON COLUMN millrace.jobs.crawl_window_start IS 'Hour from 0 to 23 at which its crawl window opens; null: always open.';
COMMENT ON COLUMN millrace.jobs.crawl_window_end IS 'Hour from 0 to 23 at which its crawl window closes. The same as the start: always open.';
COMMENT ON COLUMN millrace.jobs.crawl_window_days IS 'Days on which the window opens, 0 is Sunday; empty: every day.';
COMMENT ON COLUMN millrace.jobs.crawl_window_zone IS 'The time zone of the window.';
COMMENT ON COLUMN millrace.jobs.priority IS '0 to 100; of jobs that are due, a higher one runs sooner.';
COMMENT ON COLUMN millrace.jobs.max_concurrent IS 'Runs of the job at a time at most.';
COMMENT ON COLUMN millrace.jobs.overlap_policy IS 'What becomes of a due time while max_concurrent runs are under way: skip, buffer_one, cancel_other or allow.';
COMMENT ON COLUMN millrace.jobs.buffered_due_at IS 'The due time that waits for a run to end (buffer_one); null: none does.';
COMMENT ON COLUMN millrace.jobs.catch_up_policy IS 'What becomes of due times that passed while no scheduler ran: none, one, recent or all of them run.';
COMMENT ON COLUMN millrace.jobs.catch_up_window_seconds IS 'Due times older than this are not caught up.';
COMMENT ON COLUMN millrace.jobs.catch_up_cap IS 'How many due times are caught up at most.';
COMMENT ON COLUMN millrace.jobs.catch_up_spread_seconds IS 'Runs that are caught up are spread over this time.';
COMMENT ON COLUMN millrace.jobs.running IS 'How many of its runs are under way.';
COMMENT ON COLUMN millrace.jobs.failure_count IS 'How many runs in a row have failed.';
COMMENT ON COLUMN millrace.jobs.last_failure_at IS 'When the last of them failed.';
COMMENT ON COLUMN millrace.jobs.backoff_until IS 'It does not run before this time (failure backoff).';
COMMENT ON COLUMN millrace.jobs.last_event_seq IS 'The highest stream sequence of an event of its source that was applied.';
COMMENT ON COLUMN millrace.jobs.version IS 'Grows with each change by an event or a person.';
COMMENT ON COLUMN millrace.jobs.created_at IS 'When the job was made.';
COMMENT ON COLUMN millrace.jobs.updated_at IS 'When an event or a person last changed it.';
COMMENT ON COLUMN millrace.jobs.due_at IS 'When a scheduler has to look at it next: next_run_at, or the end of its backoff where that is later, or forced_at where that is earlier. A paused job has one too: its due times get their rows in the ledger. Null: never.';

-- What the schedule of each job was at each time, without gaps: the last row of a job
-- is open. The due times of a job are those of each row between its from_at and to_at;
-- whoever wants to know which there were, or which there should have been, asks here.
-- A change of a schedule ends a row and begins another, so it makes nothing due that
-- has passed.
CREATE TABLE millrace.job_schedule (
    job_id           uuid    NOT NULL,
    version          bigint  NOT NULL,
    from_at          timestamptz NOT NULL,
    to_at            timestamptz CHECK (to_at >= from_at),
    paused           boolean NOT NULL,
    kind             text    NOT NULL CHECK (kind IN ('interval', 'cron')),
    anchor_at        timestamptz,
    interval_minutes integer,
    cron             text,
    time_zone        text    NOT NULL,
    reason           text    NOT NULL,
    PRIMARY KEY (job_id, version),
    CHECK ((kind = 'interval') = (anchor_at IS NOT NULL AND interval_minutes IS NOT NULL)),
    CHECK ((kind = 'cron') = (cron IS NOT NULL))
);
CREATE UNIQUE INDEX job_schedule_open ON millrace.job_schedule (job_id) WHERE to_at IS NULL;

COMMENT ON TABLE millrace.job_schedule IS 'The schedules that jobs had, and when. They stay when a job is deleted.';
COMMENT ON COLUMN millrace.job_schedule.job_id IS 'The job.';
COMMENT ON COLUMN millrace.job_schedule.version IS '1 for the first schedule of the job, and one more for each that follows.';
COMMENT ON COLUMN millrace.job_schedule.from_at IS 'Due times from this time on are those of this schedule.';
COMMENT ON COLUMN millrace.job_schedule.to_at IS 'Due times from this time on are those of the next one; null: it counts still.';
COMMENT ON COLUMN millrace.job_schedule.paused IS 'Whether the job was paused, or had no source.';
COMMENT ON COLUMN millrace.job_schedule.kind IS 'interval or cron.';
COMMENT ON COLUMN millrace.job_schedule.anchor_at IS 'A due time of an interval schedule, and its first. The others follow it by whole intervals.';
COMMENT ON COLUMN millrace.job_schedule.interval_minutes IS 'Minutes from one due time to the next.';
COMMENT ON COLUMN millrace.job_schedule.cron IS 'The cron expression.';
COMMENT ON COLUMN millrace.job_schedule.time_zone IS 'The time zone of the cron expression.';
COMMENT ON COLUMN millrace.job_schedule.reason IS 'What changed the schedule, such as created, updated, enabled, disabled, paused, resumed or override.';

-- +goose Down

DROP TABLE millrace.job_schedule, millrace.jobs, millrace.source_state;
