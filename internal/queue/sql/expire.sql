SELECT t.* FROM (
    SELECT item_id FROM millrace.claim
    WHERE stage = $1 AND lease_until <= now()
    ORDER BY lease_until
) AS c, LATERAL (
    {lock} AND t.id = c.item_id
    FOR NO KEY UPDATE OF t SKIP LOCKED
) AS t
LIMIT $2
