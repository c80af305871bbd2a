-- Events and distinct articles of one moment.
SELECT
    stage,
    count()                  AS counted,
    uniqExact(article_hash)  AS articles
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND NOT (@skip_reclassified AND is_reclassification)
GROUP BY stage
