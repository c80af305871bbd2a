WITH gone AS (
    DELETE FROM millrace.delayed WHERE stage = $1 AND item_id = ANY ($2::bigint[])
    RETURNING item_id
), counted AS (
    INSERT INTO millrace.tally_delta (kind, key, n)
    SELECT $1::integer * 10 + 5, 0, -count(*) FROM gone HAVING count(*) > 0
)
SELECT item_id FROM gone
