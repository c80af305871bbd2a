-- Events of one moment, and an estimate of their distinct articles in bounded
-- memory: 2^17 registers, a standard error below 0.5 %.
SELECT
    stage,
    count()                           AS counted,
    uniqCombined64(17)(article_hash)  AS articles
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND NOT (@skip_reclassified AND is_reclassification)
GROUP BY stage
