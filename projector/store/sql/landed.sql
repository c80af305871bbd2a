SELECT DISTINCT seq
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(?, 'UTC') AND occurred_at <= fromUnixTimestamp64Nano(?, 'UTC')
  AND seq > ? AND seq <= ?
ORDER BY seq
