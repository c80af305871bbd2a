SELECT identity, seq
FROM events
WHERE seq > @from AND seq <= @to
  AND reinterpretAsUInt8(substring(article_hash, 1, 1)) % @of = @number
UNION ALL
SELECT identity, seq
FROM retired_identities
WHERE seq > @from AND seq <= @to AND slot % @of = @number
