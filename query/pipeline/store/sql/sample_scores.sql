-- How often each quality score occurs in a sample. Those beyond @max_score,
-- which earlier releases stored, count as absent.
SELECT
    assumeNotNull(quality_score) AS score,
    count()                      AS classifications
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND stage = @classify
  AND (@version = '' OR model_version = @version)
  AND abs(quality_score) <= @max_score
  AND reinterpretAsUInt32(article_hash) % toUInt32(@sample) = 0
GROUP BY score
