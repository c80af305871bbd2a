-- Articles of a sample by topic, and their number under the empty topic.
SELECT
    toString(arrayJoin(arrayConcat([''], arrayDistinct(topics)))) AS topic,
    uniqExact(article_hash)                                       AS articles
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND stage = @classify
  AND (@version = '' OR model_version = @version)
  AND reinterpretAsUInt32(article_hash) % toUInt32(@sample) = 0
GROUP BY topic
ORDER BY articles DESC, topic
LIMIT @limit
