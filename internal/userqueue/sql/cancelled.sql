WITH gone AS (
    UPDATE millrace.item SET cancelled = true WHERE id = ANY ($2::bigint[]) RETURNING 1
)
INSERT INTO millrace.tally_delta (kind, key, n) SELECT $1::smallint::integer * 10 + 7, 0, count(*) FROM gone
