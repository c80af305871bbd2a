SELECT
    toUnixTimestamp64Nano(occurred_at)                          AS at,
    stage,
    source_name,
    reinterpretAsUInt64(reverse(substring(article_hash, 1, 8))) AS article
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
LIMIT @limit
