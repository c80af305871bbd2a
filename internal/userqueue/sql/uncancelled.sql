WITH back AS (
    UPDATE millrace.item SET cancelled = false WHERE id = ANY ($2::bigint[]) AND cancelled RETURNING 1
)
INSERT INTO millrace.tally_delta (kind, key, n) SELECT $1::smallint::integer * 10 + 7, 0, -count(*) FROM back HAVING count(*) > 0
