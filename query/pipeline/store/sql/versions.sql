-- What each model version has classified, the newest versions first. Scores
-- beyond @max_score, which earlier releases stored, count as absent.
SELECT
    toString(model_version)                                        AS version,
    uniqExact(article_hash)                                        AS articles,
    avg(if(abs(quality_score) <= @max_score, quality_score, NULL)) AS mean
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND stage = @classify
  AND model_version != ''
  AND reinterpretAsUInt32(article_hash) % toUInt32(@sample) = 0
GROUP BY version
ORDER BY min(occurred_at) DESC, version
LIMIT @limit
