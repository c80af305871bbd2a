SELECT identity, seq
FROM events
WHERE seq > ? AND seq <= ?
  AND reinterpretAsUInt8(substring(article_hash, 1, 1)) % ? = ?
