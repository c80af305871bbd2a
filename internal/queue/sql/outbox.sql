SELECT item_id, stage, generation, priority FROM millrace.outbox
WHERE stage = $1
ORDER BY priority DESC, item_id
LIMIT $2
