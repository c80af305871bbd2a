-- +goose Up
-- What was found out about items after their outcomes were stored: one row for each outcome
-- that was enriched. A row that is written again replaces the one before.
CREATE TABLE IF NOT EXISTS item_analyses
(
    job_id          String COMMENT 'the job that crawled the item',
    batch_index     UInt32 COMMENT 'which batch of the job it is',
    position        UInt32 COMMENT 'of the item in the batch, from 0',
    version         UInt64 COMMENT 'of the outcome, as in item_outcomes',
    engagement      Nullable(Float64),
    engagement_rate Nullable(Float64),
    impact          Nullable(Float64),
    sentiment       LowCardinality(String),
    sentiment_score Nullable(Float64),
    intent          LowCardinality(String),
    language        LowCardinality(String),
    keywords        Array(String),
    risk            LowCardinality(String),
    asked           UInt8 COMMENT '1: an analyser was asked',
    analyser        LowCardinality(String) COMMENT 'its name and version; empty: none has answered',
    analysis_error  String COMMENT 'why the item could not be analysed; empty: it was' CODEC(ZSTD(1)),
    read_at         DateTime64(9, 'UTC') COMMENT 'when the batch was read; the same for all versions' CODEC(Delta, LZ4),
    analysed_at     DateTime64(9, 'UTC') CODEC(Delta, LZ4),
    seq             UInt64 COMMENT 'of the outcome, as in item_outcomes' CODEC(Delta, LZ4)
)
ENGINE = ReplacingMergeTree(analysed_at)
PARTITION BY toYYYYMM(read_at)
ORDER BY (job_id, batch_index, position, version)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- The outcome that counts of every item, with what was found out about it. Texts are cast: a
-- view whose column is String where its query has LowCardinality(String) refuses column = ''.
CREATE OR REPLACE VIEW post_analytics
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
    created_at       DateTime64(9, 'UTC') COMMENT 'when the outcome came',
    engagement       Nullable(Float64) COMMENT 'likes + 2 * comments + 3 * shares + 2 * saves; NULL: not known, or not computed',
    engagement_rate  Nullable(Float64) COMMENT 'engagement for each view; NULL: not known, or not computed',
    impact           Nullable(Float64) COMMENT '12.5 * log10(1 + views + 10 * engagement), at most 100; NULL: not known, or not computed',
    sentiment        String COMMENT 'positive, neutral, negative or mixed; empty: no analyser said',
    sentiment_score  Nullable(Float64) COMMENT 'from -1 to 1; NULL: no analyser said',
    intent           String COMMENT 'empty: no analyser said',
    language         String COMMENT 'empty: no analyser said',
    keywords         Array(String) COMMENT 'as the analyser said',
    risk             String COMMENT 'none, low, medium, high or critical; empty: no analyser said',
    analyser         String COMMENT 'name and version of the analyser; empty: none has answered',
    analysis_error   String COMMENT 'why the item could not be analysed; empty: it was, or was not yet',
    analysed_at      Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL: not yet'
)
AS SELECT
    p.content_id AS content_id, p.project_id AS project_id, p.job_id AS job_id, p.batch_index AS batch_index,
    p.position AS position, CAST(p.platform, 'String') AS platform, CAST(p.task_type, 'String') AS task_type,
    CAST(p.keyword_source, 'String') AS keyword_source, p.crawled_at AS crawled_at,
    CAST(p.pipeline_version, 'String') AS pipeline_version, p.fetch_status AS fetch_status,
    p.fetch_error AS fetch_error, CAST(p.error_code, 'String') AS error_code,
    CAST(p.error_category, 'String') AS error_category, p.error_details AS error_details, p.permalink AS permalink,
    p.content AS content, p.attempts AS attempts, p.read_at AS read_at, p.created_at AS created_at,
    a.engagement AS engagement, a.engagement_rate AS engagement_rate, a.impact AS impact,
    CAST(a.sentiment, 'String') AS sentiment, a.sentiment_score AS sentiment_score, CAST(a.intent, 'String') AS intent,
    CAST(a.language, 'String') AS language, a.keywords AS keywords, CAST(a.risk, 'String') AS risk,
    CAST(a.analyser, 'String') AS analyser, a.analysis_error AS analysis_error, a.analysed_at AS analysed_at
FROM
(
    SELECT
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
    ) AS l
) AS p
GLOBAL ANY LEFT JOIN
(
    SELECT
        job_id, batch_index, position, version, engagement, engagement_rate, impact, sentiment, sentiment_score, intent, language,
        keywords, risk, analyser, analysis_error, toNullable(analysed_at) AS analysed_at
    FROM item_analyses FINAL
) AS a ON p.job_id = a.job_id AND p.batch_index = a.batch_index AND p.position = a.position AND p.attempts = a.version;

-- +goose Down
CREATE OR REPLACE VIEW post_analytics
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
DROP TABLE IF EXISTS item_analyses;
