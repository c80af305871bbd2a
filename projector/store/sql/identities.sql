SELECT identity, seq
FROM events
WHERE seq > ? AND seq <= ?
