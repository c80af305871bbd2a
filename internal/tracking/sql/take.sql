SELECT t.* FROM (
    SELECT item_id, generation FROM millrace.ready
    WHERE stage = $1
    ORDER BY priority DESC, item_id
) AS r, LATERAL (
    {lock}
    WHERE t.id = r.item_id AND t.{stage}_generation = r.generation AND t.{stage}_status = 'new'
    FOR NO KEY UPDATE OF t SKIP LOCKED
) AS t
LIMIT $2
