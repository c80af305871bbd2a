-- Articles by model version and topic.
SELECT
    toString(model_version)                      AS version,
    toString(arrayJoin(arrayDistinct(topics)))   AS topic,
    uniqExact(article_hash)                      AS articles
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND stage = @classify
  AND model_version != ''
  AND reinterpretAsUInt32(article_hash) % toUInt32(@sample) = 0
GROUP BY version, topic
ORDER BY version, articles DESC, topic
LIMIT @limit BY version
