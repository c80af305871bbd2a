WITH gone AS (
    DELETE FROM millrace.failed WHERE stage = $1 AND item_id = ANY ($2::bigint[])
    RETURNING dead
)
INSERT INTO millrace.tally_delta (kind, key, n)
SELECT $1::integer * 10 + 6, 0, -count(*) FROM gone WHERE dead HAVING count(*) > 0
