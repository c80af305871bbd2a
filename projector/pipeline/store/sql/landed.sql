SELECT DISTINCT seq
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(?, 'UTC') AND occurred_at <= fromUnixTimestamp64Nano(?, 'UTC')
  AND seq > ? AND seq <= ?
  AND reinterpretAsUInt8(substring(article_hash, 1, 1)) % ? = ?
ORDER BY seq
