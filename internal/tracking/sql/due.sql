SELECT t.* FROM (
    SELECT item_id, generation FROM millrace.delayed
    WHERE stage = $1 AND due_at <= now()
    ORDER BY due_at
) AS d, LATERAL (
    {lock}
    WHERE t.id = d.item_id AND t.{stage}_generation = d.generation AND t.{stage}_status = 'new'
    FOR NO KEY UPDATE OF t SKIP LOCKED
) AS t
LIMIT $2
