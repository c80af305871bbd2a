-- The earliest event of each model version, whatever the window.
SELECT
    toString(model_version) AS version,
    min(occurred_at)        AS first_at
FROM events
WHERE seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND stage = @classify
  AND model_version != ''
GROUP BY version
