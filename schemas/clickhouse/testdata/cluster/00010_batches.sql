-- +goose Up
-- Every outcome of every item of a batch, once. Version 0 is the outcome that the batch
-- brought, and each retry adds a version: the highest one counts, and the others are the
-- item's history. All rows of a batch are in one partition, so that one insert shows all
-- of them at once.
CREATE TABLE IF NOT EXISTS item_outcomes_local ON CLUSTER `main`
(
    job_id           String COMMENT 'the job that crawled the item',
    batch_index      UInt32 COMMENT 'which batch of the job it is',
    position         UInt32 COMMENT 'of the item in the batch, from 0',
    version          UInt64 COMMENT '0: as the batch brought it; higher: the outcome of a retry',
    project_id       LowCardinality(String) COMMENT 'the project that the name of the job says; empty: none',
    platform         LowCardinality(String) COMMENT 'as announced',
    task_type        LowCardinality(String) COMMENT 'as the item says, else as announced',
    keyword_source   LowCardinality(String) COMMENT 'as the item says, else the keyword as announced',
    pipeline_version LowCardinality(String) COMMENT 'of the crawler',
    content_id       String COMMENT 'content_id or id of the item; empty: none can be read',
    permalink        String,
    crawled_at       Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL: the item does not say',
    fetch_status     Enum8('success' = 1, 'error' = 2) COMMENT 'error: also of what could not be read as an item',
    error_category   LowCardinality(String) COMMENT 'empty: no error',
    error_code       LowCardinality(String) COMMENT 'empty: no error',
    fetch_error      String COMMENT 'message of the error, or the rule that the item breaks' CODEC(ZSTD(1)),
    error_details    String COMMENT 'JSON; empty: none' CODEC(ZSTD(1)),
    content          String COMMENT 'the whole item as it was read' CODEC(ZSTD(1)),
    read_at          DateTime64(9, 'UTC') COMMENT 'when the batch was read; the same for all versions' CODEC(Delta, LZ4),
    created_at       DateTime64(9, 'UTC') COMMENT 'when the outcome came' CODEC(Delta, LZ4),
    seq              UInt64 COMMENT 'of the batch, or of the retry, in the stream that carried it' CODEC(Delta, LZ4),
    INDEX by_seq seq TYPE minmax GRANULARITY 1,
    INDEX by_read read_at TYPE minmax GRANULARITY 1,
    INDEX by_content content_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplicatedMergeTree
PARTITION BY toYYYYMM(read_at)
ORDER BY (job_id, batch_index, position, version)
SETTINGS replicated_deduplication_window = 10000,
         fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS item_outcomes ON CLUSTER `main` AS item_outcomes_local
ENGINE = Distributed('main', currentDatabase(), 'item_outcomes_local', cityHash64(job_id, batch_index));

-- Errors of items, with a retention of their own. A retry that succeeds writes a row
-- that removes the error.
CREATE TABLE IF NOT EXISTS item_errors_local ON CLUSTER `main`
(
    job_id         String COMMENT 'the job that crawled the item',
    batch_index    UInt32 COMMENT 'which batch of the job it is',
    position       UInt32 COMMENT 'of the item in the batch, from 0',
    version        UInt64 COMMENT 'as in item_outcomes',
    project_id     LowCardinality(String) COMMENT 'the project that the name of the job says; empty: none',
    platform       LowCardinality(String) COMMENT 'as announced',
    content_id     String COMMENT 'content_id or id of the item; empty: none can be read',
    error_code     LowCardinality(String),
    error_category LowCardinality(String),
    error_message  String COMMENT 'what the item says, or the rule that it breaks' CODEC(ZSTD(1)),
    error_details  String COMMENT 'JSON; empty: none' CODEC(ZSTD(1)),
    permalink      String,
    read_at        DateTime64(9, 'UTC') COMMENT 'when the batch was read; the same for all versions' CODEC(Delta, LZ4),
    created_at     DateTime64(9, 'UTC') COMMENT 'when the outcome came' CODEC(Delta, LZ4),
    seq            UInt64 COMMENT 'as in item_outcomes' CODEC(Delta, LZ4),
    removed        UInt8 COMMENT '1: a retry succeeded, and the item is no error any more',
    INDEX by_seq seq TYPE minmax GRANULARITY 1,
    INDEX by_read read_at TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree(version, removed)
PARTITION BY toYYYYMM(read_at)
ORDER BY (job_id, batch_index, position)
TTL toDateTime(read_at) + INTERVAL 365 DAY
SETTINGS ttl_only_drop_parts = 1, replicated_deduplication_window = 10000,
         fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS item_errors ON CLUSTER `main` AS item_errors_local
ENGINE = Distributed('main', currentDatabase(), 'item_errors_local', cityHash64(job_id, batch_index));

-- The outcome that counts of every item. An item that succeeded at first is never tried
-- again, so its row is the only one.
CREATE VIEW IF NOT EXISTS post_analytics ON CLUSTER `main`
(
    content_id       String COMMENT 'content_id or id of the item; empty: none can be read',
    project_id       Nullable(String) COMMENT 'the project that the name of the job says; NULL: a dry run, or none',
    job_id           String COMMENT 'the job that crawled the item',
    batch_index      UInt32 COMMENT 'which batch of the job it is',
    position         UInt32 COMMENT 'of the item in the batch, from 0',
    platform         String COMMENT 'as announced',
    task_type        String COMMENT 'as the item says, else as announced',
    keyword_source   String COMMENT 'as the item says, else the keyword as announced',
    crawled_at       Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL: the item does not say',
    pipeline_version String COMMENT 'of the crawler',
    fetch_status     String COMMENT 'success or error; error also of what could not be read as an item',
    fetch_error      String COMMENT 'message of the error, or the rule that the item breaks',
    error_code       String COMMENT 'empty: no error',
    error_category   String COMMENT 'empty: no error',
    error_details    String COMMENT 'JSON; empty: none',
    permalink        String COMMENT 'address of the item',
    content          String COMMENT 'the whole item as it was read',
    attempts         UInt64 COMMENT 'retries that the outcome took; 0: it came with the batch',
    read_at          DateTime64(9, 'UTC') COMMENT 'when the batch was read',
    created_at       DateTime64(9, 'UTC') COMMENT 'when the outcome came'
)
AS SELECT
    content_id, nullIf(toString(o.project_id), '') AS project_id, job_id, batch_index, position, toString(o.platform) AS platform,
    toString(o.task_type) AS task_type, toString(o.keyword_source) AS keyword_source, crawled_at,
    toString(o.pipeline_version) AS pipeline_version, toString(o.fetch_status) AS fetch_status, fetch_error,
    toString(o.error_code) AS error_code, toString(o.error_category) AS error_category, error_details, permalink, content,
    version AS attempts, read_at, created_at
FROM item_outcomes AS o
WHERE version = 0 AND o.error_category = ''
UNION ALL
SELECT
    content_id, nullIf(toString(l.project_id), '') AS project_id, job_id, batch_index, position, toString(l.platform) AS platform,
    toString(l.task_type) AS task_type, toString(l.keyword_source) AS keyword_source, crawled_at,
    toString(l.pipeline_version) AS pipeline_version, toString(l.fetch_status) AS fetch_status, fetch_error,
    toString(l.error_code) AS error_code, toString(l.error_category) AS error_category, error_details, permalink, content,
    version AS attempts, read_at, created_at
FROM
(
    SELECT * FROM item_outcomes WHERE version > 0 OR error_category != ''
    ORDER BY job_id, batch_index, position, version DESC LIMIT 1 BY job_id, batch_index, position
) AS l;

-- The errors that count at present.
CREATE VIEW IF NOT EXISTS crawl_errors ON CLUSTER `main`
(
    id             String COMMENT 'job_id/batch_index/position',
    content_id     String COMMENT 'content_id or id of the item; empty: none can be read',
    project_id     Nullable(String) COMMENT 'the project that the name of the job says; NULL: a dry run, or none',
    job_id         String COMMENT 'the job that crawled the item',
    batch_index    UInt32 COMMENT 'which batch of the job it is',
    position       UInt32 COMMENT 'of the item in the batch, from 0',
    platform       String COMMENT 'as announced',
    error_code     String COMMENT 'UNKNOWN_ERROR: the item does not say which',
    error_category String COMMENT 'rate_limiting, content, network, parsing, media, storage or generic',
    error_message  String COMMENT 'what the item says, or the rule that it breaks',
    error_details  String COMMENT 'JSON; empty: none',
    permalink      String COMMENT 'address of the item',
    read_at        DateTime64(9, 'UTC') COMMENT 'when the batch was read',
    created_at     DateTime64(9, 'UTC') COMMENT 'when the error came'
)
AS SELECT
    concat(job_id, '/', toString(batch_index), '/', toString(position)) AS id, content_id,
    nullIf(toString(e.project_id), '') AS project_id, job_id, batch_index, position, toString(e.platform) AS platform,
    toString(e.error_code) AS error_code, toString(e.error_category) AS error_category, error_message, error_details, permalink,
    read_at, created_at
FROM item_errors AS e FINAL;

-- +goose Down
DROP VIEW IF EXISTS crawl_errors ON CLUSTER `main`;
DROP VIEW IF EXISTS post_analytics ON CLUSTER `main`;
DROP TABLE IF EXISTS item_errors ON CLUSTER `main`;

DROP TABLE IF EXISTS item_errors_local ON CLUSTER `main` SYNC;
DROP TABLE IF EXISTS item_outcomes ON CLUSTER `main`;

DROP TABLE IF EXISTS item_outcomes_local ON CLUSTER `main` SYNC;
