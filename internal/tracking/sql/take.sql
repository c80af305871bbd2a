JOIN millrace.ready AS r ON r.item_id = t.id AND r.generation = t.{stage}_generation
WHERE r.stage = $1 AND t.{stage}_status = 'new'
ORDER BY r.priority DESC, r.item_id
LIMIT $2
FOR NO KEY UPDATE OF t SKIP LOCKED
