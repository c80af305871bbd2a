SELECT t.* FROM (
    SELECT item_id FROM millrace.delayed
    WHERE stage = $1 AND due_at <= now()
    ORDER BY due_at
) AS d, LATERAL (
    {lock} AND t.id = d.item_id
    FOR NO KEY UPDATE OF t SKIP LOCKED
) AS t
LIMIT $2
