SELECT DISTINCT seq
FROM events
WHERE occurred_at >= ? AND occurred_at <= ? AND seq > ? AND seq <= ?
ORDER BY seq
