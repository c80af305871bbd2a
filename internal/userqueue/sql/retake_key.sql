INSERT INTO millrace.item_key AS k (stage, key, item_id)
SELECT t.stage, t.key, t.id FROM millrace.item AS t
WHERE t.stage = $1 AND t.id = ANY ($2::bigint[]) AND t.key IS NOT NULL AND t.status = 'failed'
ORDER BY t.key
ON CONFLICT (stage, key) DO NOTHING
RETURNING item_id
