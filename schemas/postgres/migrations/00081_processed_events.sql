-- +goose Up

-- What became of each event about a source. A row commits together with the effects
-- of its event, so an event that comes again, by whatever sequence, finds it and
-- changes nothing. Rows go after seven days; the sequences in source_state hold beyond.
CREATE TABLE millrace.processed_events (
    event_id     uuid PRIMARY KEY,
    event_type   text   NOT NULL,
    source_id    uuid   NOT NULL,
    seq          bigint NOT NULL,
    event_at     timestamptz NOT NULL,
    outcome      text   NOT NULL CHECK (outcome IN ('applied', 'stale', 'waiting', 'dead')),
    job_id       uuid,
    detail       text   NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX processed_events_time ON millrace.processed_events (processed_at, event_id);
CREATE INDEX processed_events_source ON millrace.processed_events (source_id, processed_at, event_id);

COMMENT ON TABLE millrace.processed_events IS 'Events about sources that were processed within the last seven days.';
COMMENT ON COLUMN millrace.processed_events.event_id IS 'The id of the event.';
COMMENT ON COLUMN millrace.processed_events.event_type IS 'SOURCE_CREATED, SOURCE_UPDATED, SOURCE_DELETED, SOURCE_ENABLED or SOURCE_DISABLED.';
COMMENT ON COLUMN millrace.processed_events.source_id IS 'The source that it is about.';
COMMENT ON COLUMN millrace.processed_events.seq IS 'Its sequence on the stream SOURCES.';
COMMENT ON COLUMN millrace.processed_events.event_at IS 'When it happened, as it says.';
COMMENT ON COLUMN millrace.processed_events.outcome IS 'applied; stale: a later event had said everything already; waiting: its source is not known yet; dead: its source did not become known, and the event is a dead letter.';
COMMENT ON COLUMN millrace.processed_events.job_id IS 'The job of the source; null: it has none.';
COMMENT ON COLUMN millrace.processed_events.detail IS 'What it changed, or why it changed nothing.';
COMMENT ON COLUMN millrace.processed_events.processed_at IS 'When it was processed; of one that waits, when it was first seen.';

-- +goose Down

DROP TABLE millrace.processed_events;
