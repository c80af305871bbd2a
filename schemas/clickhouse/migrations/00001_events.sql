-- +goose Up
-- Every accepted event once, by its place in the EVENTS stream. The
-- deduplication window lets a projector repeat an insert whose outcome it does
-- not know; parts are synced to disk before an insert is confirmed, because
-- what is confirmed is acknowledged to the stream.
CREATE TABLE IF NOT EXISTS events
(
    seq                     UInt64 COMMENT 'sequence in the EVENTS stream' CODEC(Delta, LZ4),
    occurred_at             DateTime64(9, 'UTC') COMMENT 'set by the emitting service' CODEC(Delta, LZ4),
    received_at             DateTime64(9, 'UTC') COMMENT 'when the stream received it' CODEC(Delta, LZ4),
    stage                   LowCardinality(String),
    source_name             LowCardinality(String),
    service_name            LowCardinality(String),
    domain                  LowCardinality(String) COMMENT 'host of the URL that url_hash is of',
    article_url             String,
    article_hash            FixedString(32) COMMENT 'SHA-256 of canonical_url, or of article_url without one',
    url_hash                String ALIAS lower(hex(article_hash)),
    canonical_url           String,
    trace_id                String,
    idempotency_key         String COMMENT 'as the publisher sent it; empty when computed',
    identity                FixedString(16) COMMENT 'first 128 bits of SHA-256(key/url_hash)',
    metadata                String COMMENT 'the JSON object as sent; empty when there is none',
    metadata_schema_version UInt16,
    quality_score           Nullable(Float64),
    topics                  Array(LowCardinality(String)),
    model_version           LowCardinality(String),
    content_type            LowCardinality(String),
    channel                 LowCardinality(String),
    is_reclassification     Bool,
    is_duplicate            Bool,
    backfilled              Bool,
    INDEX by_seq seq TYPE minmax GRANULARITY 1,
    INDEX by_article article_hash TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_url article_url TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (occurred_at, seq)
SETTINGS non_replicated_deduplication_window = 10000,
         fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- +goose Down
DROP TABLE IF EXISTS events;
