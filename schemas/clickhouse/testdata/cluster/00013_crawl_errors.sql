-- +goose Up
-- Texts are cast, as in post_analytics: else error_category = '' is refused.
CREATE OR REPLACE VIEW crawl_errors ON CLUSTER `main`
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
    id, content_id, project_id, job_id, batch_index, position, CAST(platform, 'String') AS platform,
    CAST(error_code, 'String') AS error_code, CAST(error_category, 'String') AS error_category, error_message, error_details,
    permalink, read_at, created_at
FROM
(
    SELECT
        concat(job_id, '/', toString(batch_index), '/', toString(position)) AS id, content_id,
        nullIf(toString(e.project_id), '') AS project_id, job_id, batch_index, position, toString(e.platform) AS platform,
        toString(e.error_code) AS error_code, toString(e.error_category) AS error_category, error_message, error_details, permalink,
        read_at, created_at
    FROM item_errors AS e FINAL
);

-- +goose Down
CREATE OR REPLACE VIEW crawl_errors ON CLUSTER `main`
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
