-- +goose Up
-- Months whose events have been summed up: those with a sequence of at most
-- upto count in events_daily and events_monthly, and no more in the events
-- table, from which they are then removed. A row here is what makes it so, at
-- once for all readers. A month is retired again when events come late.
CREATE TABLE IF NOT EXISTS retired
(
    month  UInt32 COMMENT 'of occurred_at, yyyymm',
    upto   UInt64 COMMENT 'sequence in the EVENTS stream',
    events UInt64 COMMENT 'that this retirement has summed up',
    at     DateTime('UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (month, upto)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- What is kept of retired events, by day. A row with an empty dimension counts
-- every event of its stage and source once; the others count those that have
-- the value. Rows are whole states: of two rows with one key, the one that has
-- seen more events holds all that the other does.
CREATE TABLE IF NOT EXISTS events_daily
(
    period            Date COMMENT 'the day of occurred_at, UTC',
    stage             LowCardinality(String),
    source_name       LowCardinality(String),
    dimension         LowCardinality(String) COMMENT 'empty, service, model_version, content_type, topic or channel',
    value             String,
    upto              UInt64 COMMENT 'names the retirement, with the month of period',
    events            UInt64,
    reclassifications UInt64,
    duplicates        UInt64,
    backfilled        UInt64,
    articles          AggregateFunction(uniqCombined64, FixedString(32)) COMMENT 'of article_hash',
    quality_events    UInt64 COMMENT 'with a quality score',
    quality_sum       Float64,
    quality_values    Array(Float64) COMMENT 'scores, rounded to a tenth',
    quality_counts    Array(UInt64) COMMENT 'events with the score of the same place'
)
ENGINE = ReplacingMergeTree(events)
PARTITION BY toYYYYMM(period)
ORDER BY (dimension, period, stage, source_name, value, upto)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- The same by month; period is its first day.
CREATE TABLE IF NOT EXISTS events_monthly
(
    period            Date,
    stage             LowCardinality(String),
    source_name       LowCardinality(String),
    dimension         LowCardinality(String),
    value             String,
    upto              UInt64,
    events            UInt64,
    reclassifications UInt64,
    duplicates        UInt64,
    backfilled        UInt64,
    articles          AggregateFunction(uniqCombined64, FixedString(32)),
    quality_events    UInt64,
    quality_sum       Float64,
    quality_values    Array(Float64),
    quality_counts    Array(UInt64)
)
ENGINE = ReplacingMergeTree(events)
PARTITION BY toYear(period)
ORDER BY (dimension, period, stage, source_name, value, upto)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- Events that are not retired, once for each dimension that they have.
CREATE VIEW IF NOT EXISTS unretired AS
SELECT
    seq, occurred_at, stage, source_name, article_hash, quality_score, round(ifNull(quality_score, 0), 1) AS tenth,
    is_reclassification, is_duplicate, events.backfilled AS is_backfilled, d.1 AS dimension, d.2 AS value
FROM events
GLOBAL LEFT JOIN (SELECT month, max(upto) AS upto FROM retired GROUP BY month) AS r ON toYYYYMM(events.occurred_at) = r.month
ARRAY JOIN arrayConcat(
    [('', ''), ('service', toString(service_name)), ('model_version', toString(model_version)),
     ('content_type', toString(content_type)), ('channel', toString(channel))],
    arrayMap(t -> ('topic', toString(t)), arrayDistinct(topics))) AS d
WHERE seq > ifNull(r.upto, 0) AND (dimension = '' OR value != '');

-- Everything that has ever been counted, by day: retired events and those that
-- are not. The numbers of a day stay the same when it is retired. articles is
-- an estimate (0.4 % standard error) beyond some thousands.
CREATE VIEW IF NOT EXISTS daily_totals AS
SELECT
    period, stage, source_name, dimension, value,
    sum(n)                     AS events,
    sum(reclassified)          AS reclassifications,
    sum(duplicated)            AS duplicates,
    sum(filled)                AS backfilled,
    uniqCombined64Merge(state) AS articles,
    sum(scored)                AS quality_events,
    sum(score)                 AS quality_sum,
    sumMap(scores, counts)     AS quality
FROM
(
    SELECT
        period, stage, source_name, dimension, value, events AS n, reclassifications AS reclassified, duplicates AS duplicated, backfilled AS filled,
        articles AS state, quality_events AS scored, quality_sum AS score, quality_values AS scores, quality_counts AS counts
    FROM events_daily FINAL
    WHERE (toYYYYMM(period), upto) GLOBAL IN (SELECT month, upto FROM retired)
    UNION ALL
    SELECT
        toDate(occurred_at) AS period, stage, source_name, dimension, value, count() AS n, countIf(is_reclassification) AS reclassified,
        countIf(is_duplicate) AS duplicated, countIf(is_backfilled) AS filled, uniqCombined64State(article_hash) AS state,
        count(quality_score) AS scored, sum(ifNull(quality_score, 0)) AS score,
        tupleElement(sumMapIf([tenth], [toUInt64(1)], isNotNull(quality_score)), 1) AS scores,
        tupleElement(sumMapIf([tenth], [toUInt64(1)], isNotNull(quality_score)), 2) AS counts
    FROM unretired
    GROUP BY period, stage, source_name, dimension, value
)
GROUP BY period, stage, source_name, dimension, value;

-- The same by month.
CREATE VIEW IF NOT EXISTS monthly_totals AS
SELECT
    period, stage, source_name, dimension, value,
    sum(n)                     AS events,
    sum(reclassified)          AS reclassifications,
    sum(duplicated)            AS duplicates,
    sum(filled)                AS backfilled,
    uniqCombined64Merge(state) AS articles,
    sum(scored)                AS quality_events,
    sum(score)                 AS quality_sum,
    sumMap(scores, counts)     AS quality
FROM
(
    SELECT
        period, stage, source_name, dimension, value, events AS n, reclassifications AS reclassified, duplicates AS duplicated, backfilled AS filled,
        articles AS state, quality_events AS scored, quality_sum AS score, quality_values AS scores, quality_counts AS counts
    FROM events_monthly FINAL
    WHERE (toYYYYMM(period), upto) GLOBAL IN (SELECT month, upto FROM retired)
    UNION ALL
    SELECT
        toStartOfMonth(occurred_at) AS period, stage, source_name, dimension, value, count() AS n, countIf(is_reclassification) AS reclassified,
        countIf(is_duplicate) AS duplicated, countIf(is_backfilled) AS filled, uniqCombined64State(article_hash) AS state,
        count(quality_score) AS scored, sum(ifNull(quality_score, 0)) AS score,
        tupleElement(sumMapIf([tenth], [toUInt64(1)], isNotNull(quality_score)), 1) AS scores,
        tupleElement(sumMapIf([tenth], [toUInt64(1)], isNotNull(quality_score)), 2) AS counts
    FROM unretired
    GROUP BY period, stage, source_name, dimension, value
)
GROUP BY period, stage, source_name, dimension, value;

-- +goose Down
DROP VIEW IF EXISTS monthly_totals;
DROP VIEW IF EXISTS daily_totals;
DROP VIEW IF EXISTS unretired;
DROP TABLE IF EXISTS events_monthly;
DROP TABLE IF EXISTS events_daily;
DROP TABLE IF EXISTS retired;
