SELECT seq, received_at
FROM events
WHERE seq > ? AND reinterpretAsUInt8(substring(article_hash, 1, 1)) % ? = ?
ORDER BY seq DESC
LIMIT 1
