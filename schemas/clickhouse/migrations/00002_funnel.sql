-- +goose Up
-- Number of events and set of articles per bucket, source and stage. A row is
-- the whole state up to the stream sequence in seq, so that writing it again,
-- or writing an older one, changes nothing; read it with FINAL. The rows of
-- all slot groups add up.
CREATE TABLE IF NOT EXISTS funnel
(
    width      UInt32 COMMENT 'length of the bucket in seconds: 900, 3600 or 86400',
    bucket     DateTime('UTC') COMMENT 'start of the bucket',
    source     LowCardinality(String) COMMENT 'source_name; empty: all sources together',
    stage      LowCardinality(String),
    slot_group UInt32 COMMENT 'the projector group that folded it',
    events     UInt64,
    articles   String COMMENT 'set of articles, package schemas/funnel',
    seq        UInt64 COMMENT 'folded up to this sequence of the EVENTS stream'
)
ENGINE = ReplacingMergeTree(seq)
PARTITION BY toYYYYMM(bucket)
ORDER BY (width, bucket, source, stage, slot_group)
SETTINGS index_granularity = 1024,
         fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- +goose Down
DROP TABLE IF EXISTS funnel;
