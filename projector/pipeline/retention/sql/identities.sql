-- Keeps the identities of a retirement's events. Repeated, it writes rows that
-- replace those of the first time; on a table that has lost rows since, fewer.
INSERT INTO retired_identities (month, seq, slot, identity, fingerprint)
SELECT toYYYYMM(occurred_at), seq, reinterpretAsUInt8(substring(article_hash, 1, 1)), @identity, @fingerprint
FROM events
WHERE occurred_at >= @from AND occurred_at < @to AND seq > @after AND seq <= @upto
