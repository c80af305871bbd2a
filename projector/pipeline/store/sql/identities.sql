-- Identities, sequences and fingerprints of a group's events, and whether the
-- identity is an alias. Rows with the key that a backfill gives to the second row
-- of one URL and time have the computed identity as an alias: it was theirs for
-- nobody while channels had no identities of their own, and else the first row
-- has it.
SELECT @identity, seq, @fingerprint, false
FROM events
WHERE seq > @from AND seq <= @to
  AND reinterpretAsUInt8(substring(article_hash, 1, 1)) % @of = @number
UNION ALL
SELECT @computed_identity, seq, @fingerprint, true
FROM events
WHERE seq > @from AND seq <= @to
  AND reinterpretAsUInt8(substring(article_hash, 1, 1)) % @of = @number
  AND channel != '' AND backfilled AND startsWith(idempotency_key, concat(@specified_key, ':'))
UNION ALL
SELECT identity, seq, fingerprint, false
FROM retired_identities
WHERE seq > @from AND seq <= @to AND slot % @of = @number
