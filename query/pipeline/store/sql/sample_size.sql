-- How much a sample of classifications holds. An empty version is any. Scores
-- beyond @max_score, which earlier releases stored, count as absent.
SELECT
    count()                                                        AS classifications,
    avg(if(abs(quality_score) <= @max_score, quality_score, NULL)) AS mean
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND stage = @classify
  AND (@version = '' OR model_version = @version)
