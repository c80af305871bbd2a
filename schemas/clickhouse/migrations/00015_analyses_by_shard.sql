-- +goose Up
-- The same rows. Over shards, each shard merges its own: an outcome and what was found out about it are on the same one. Before,
-- the server that is asked read both of all shards, and sorted and joined them.
-- +shards join
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
    p.content_id AS content_id, nullIf(toString(p.project_id), '') AS project_id, p.job_id AS job_id,
    p.batch_index AS batch_index, p.position AS position, CAST(p.platform, 'String') AS platform,
    CAST(p.task_type, 'String') AS task_type, CAST(p.keyword_source, 'String') AS keyword_source,
    p.crawled_at AS crawled_at, CAST(p.pipeline_version, 'String') AS pipeline_version,
    CAST(p.fetch_status, 'String') AS fetch_status, p.fetch_error AS fetch_error,
    CAST(p.error_code, 'String') AS error_code, CAST(p.error_category, 'String') AS error_category,
    p.error_details AS error_details, p.permalink AS permalink, p.content AS content, p.version AS attempts,
    p.read_at AS read_at, p.created_at AS created_at, p.engagement AS engagement, p.engagement_rate AS engagement_rate,
    p.impact AS impact, CAST(p.sentiment, 'String') AS sentiment, p.sentiment_score AS sentiment_score,
    CAST(p.intent, 'String') AS intent, CAST(p.language, 'String') AS language, p.keywords AS keywords,
    CAST(p.risk, 'String') AS risk, CAST(p.analyser, 'String') AS analyser, p.analysis_error AS analysis_error,
    p.analysed_at AS analysed_at
FROM
(
    SELECT
        o.content_id, o.project_id, o.job_id, o.batch_index, o.position, o.platform, o.task_type, o.keyword_source,
        o.crawled_at, o.pipeline_version, o.fetch_status, o.fetch_error, o.error_code, o.error_category,
        o.error_details, o.permalink, o.content, o.version, o.read_at, o.created_at, a.engagement, a.engagement_rate,
        a.impact, a.sentiment, a.sentiment_score, a.intent, a.language, a.keywords, a.risk, a.analyser,
        a.analysis_error, a.analysed_at
    FROM item_outcomes AS o
    GLOBAL LEFT JOIN
    (
        SELECT
            job_id, batch_index, position, version, engagement, engagement_rate, impact, sentiment, sentiment_score,
            intent, language, keywords, risk, analyser, analysis_error, toNullable(analysed_at) AS analysed_at
        FROM item_analyses FINAL WHERE version = 0
    ) AS a
    ON o.job_id = a.job_id AND o.batch_index = a.batch_index AND o.position = a.position AND o.version = a.version
    WHERE o.version = 0 AND o.error_category = '' AND o.seq >= 0
    UNION ALL
    SELECT
        l.content_id, l.project_id, l.job_id, l.batch_index, l.position, l.platform, l.task_type, l.keyword_source,
        l.crawled_at, l.pipeline_version, l.fetch_status, l.fetch_error, l.error_code, l.error_category,
        l.error_details, l.permalink, l.content, l.version, l.read_at, l.created_at, a.engagement, a.engagement_rate,
        a.impact, a.sentiment, a.sentiment_score, a.intent, a.language, a.keywords, a.risk, a.analyser,
        a.analysis_error, a.analysed_at
    FROM
    (
        SELECT * FROM item_outcomes WHERE (version > 0 OR error_category != '') AND seq >= 0
        ORDER BY job_id, batch_index, position, version DESC LIMIT 1 BY job_id, batch_index, position
    ) AS l
    GLOBAL LEFT JOIN
    (
        SELECT
            job_id, batch_index, position, version, engagement, engagement_rate, impact, sentiment, sentiment_score,
            intent, language, keywords, risk, analyser, analysis_error, toNullable(analysed_at) AS analysed_at
        FROM item_analyses FINAL
    ) AS a
    ON l.job_id = a.job_id AND l.batch_index = a.batch_index AND l.position = a.position AND l.version = a.version
) AS p
SETTINGS join_algorithm = 'full_sorting_merge';

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
    p.content_id AS content_id, nullIf(toString(p.project_id), '') AS project_id, p.job_id AS job_id,
    p.batch_index AS batch_index, p.position AS position, CAST(p.platform, 'String') AS platform,
    CAST(p.task_type, 'String') AS task_type, CAST(p.keyword_source, 'String') AS keyword_source,
    p.crawled_at AS crawled_at, CAST(p.pipeline_version, 'String') AS pipeline_version,
    CAST(p.fetch_status, 'String') AS fetch_status, p.fetch_error AS fetch_error,
    CAST(p.error_code, 'String') AS error_code, CAST(p.error_category, 'String') AS error_category,
    p.error_details AS error_details, p.permalink AS permalink, p.content AS content, p.version AS attempts,
    p.read_at AS read_at, p.created_at AS created_at, p.engagement AS engagement, p.engagement_rate AS engagement_rate,
    p.impact AS impact, CAST(p.sentiment, 'String') AS sentiment, p.sentiment_score AS sentiment_score,
    CAST(p.intent, 'String') AS intent, CAST(p.language, 'String') AS language, p.keywords AS keywords,
    CAST(p.risk, 'String') AS risk, CAST(p.analyser, 'String') AS analyser, p.analysis_error AS analysis_error,
    p.analysed_at AS analysed_at
FROM
(
    SELECT
        o.content_id, o.project_id, o.job_id, o.batch_index, o.position, o.platform, o.task_type, o.keyword_source,
        o.crawled_at, o.pipeline_version, o.fetch_status, o.fetch_error, o.error_code, o.error_category,
        o.error_details, o.permalink, o.content, o.version, o.read_at, o.created_at, a.engagement, a.engagement_rate,
        a.impact, a.sentiment, a.sentiment_score, a.intent, a.language, a.keywords, a.risk, a.analyser,
        a.analysis_error, a.analysed_at
    FROM item_outcomes AS o
    GLOBAL LEFT JOIN
    (
        SELECT
            job_id, batch_index, position, version, engagement, engagement_rate, impact, sentiment, sentiment_score,
            intent, language, keywords, risk, analyser, analysis_error, toNullable(analysed_at) AS analysed_at
        FROM item_analyses FINAL WHERE version = 0
    ) AS a
    ON o.job_id = a.job_id AND o.batch_index = a.batch_index AND o.position = a.position AND o.version = a.version
    WHERE o.version = 0 AND o.error_category = '' AND o.seq >= 0
    UNION ALL
    SELECT
        l.content_id, l.project_id, l.job_id, l.batch_index, l.position, l.platform, l.task_type, l.keyword_source,
        l.crawled_at, l.pipeline_version, l.fetch_status, l.fetch_error, l.error_code, l.error_category,
        l.error_details, l.permalink, l.content, l.version, l.read_at, l.created_at, a.engagement, a.engagement_rate,
        a.impact, a.sentiment, a.sentiment_score, a.intent, a.language, a.keywords, a.risk, a.analyser,
        a.analysis_error, a.analysed_at
    FROM
    (
        SELECT * FROM item_outcomes WHERE (version > 0 OR error_category != '') AND seq >= 0
        ORDER BY job_id, batch_index, position, version DESC LIMIT 1 BY job_id, batch_index, position
    ) AS l
    GLOBAL LEFT JOIN
    (
        SELECT
            job_id, batch_index, position, version, engagement, engagement_rate, impact, sentiment, sentiment_score,
            intent, language, keywords, risk, analyser, analysis_error, toNullable(analysed_at) AS analysed_at
        FROM item_analyses FINAL
    ) AS a
    ON l.job_id = a.job_id AND l.batch_index = a.batch_index AND l.position = a.position AND l.version = a.version
) AS p
SETTINGS join_algorithm = 'full_sorting_merge';

DROP VIEW IF EXISTS post_analytics_local;
