SELECT
    source_name,
    count() AS counted
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
GROUP BY source_name
ORDER BY counted DESC, source_name
LIMIT @limit
