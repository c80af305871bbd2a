-- The table of a peer: the columns of the events table that take no more than
-- the event's text, synced to disk before an insert is confirmed, as that is.
CREATE TABLE IF NOT EXISTS peer_events
(
    seq                     UInt64,
    occurred_at             DateTime64(9, 'UTC'),
    received_at             DateTime64(9, 'UTC'),
    stage                   LowCardinality(String),
    source_name             LowCardinality(String),
    service_name            LowCardinality(String),
    article_url             String,
    canonical_url           String,
    trace_id                String,
    idempotency_key         String,
    metadata                String,
    metadata_schema_version UInt16,
    quality_score           Nullable(Float64),
    topics                  Array(LowCardinality(String)),
    model_version           LowCardinality(String),
    content_type            LowCardinality(String),
    channel                 LowCardinality(String),
    identity                FixedString(16)
)
ENGINE = %s
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1
