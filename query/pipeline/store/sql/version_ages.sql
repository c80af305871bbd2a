-- The earliest event of each model version, whatever the window. Of events that
-- have been retired, the day on which it happened is known, or the month where
-- the days have been dropped.
SELECT
    version,
    min(at) AS first_at
FROM
(
    SELECT
        toString(model_version) AS version,
        min(occurred_at)        AS at
    FROM events
    WHERE seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
      AND stage = @classify
      AND model_version != ''
    GROUP BY version
    UNION ALL
    SELECT
        value                               AS version,
        toDateTime64(min(period), 9, 'UTC') AS at
    FROM events_daily
    WHERE dimension = 'model_version'
      AND stage = @classify
      AND (toYYYYMM(period), upto) GLOBAL IN (SELECT month, upto FROM retired)
    GROUP BY version
    UNION ALL
    SELECT
        value                               AS version,
        toDateTime64(min(period), 9, 'UTC') AS at
    FROM events_monthly
    WHERE dimension = 'model_version'
      AND stage = @classify
      AND (toYYYYMM(period), upto) GLOBAL IN (SELECT month, upto FROM retired)
      AND (toYYYYMM(period), upto) GLOBAL NOT IN (SELECT toYYYYMM(period), upto FROM events_daily WHERE dimension = 'model_version' AND stage = @classify)
    GROUP BY version
)
GROUP BY version
