SELECT r.priority, r.item_id, r.generation, t.filename, t.shard, t.created_at
FROM millrace.ready AS r
JOIN millrace.pipeline_tracking AS t ON t.id = r.item_id
WHERE r.stage = $1 AND r.priority <= $4 AND (r.priority < $4 OR r.item_id > $5) AND t.updated_at >= $6
ORDER BY r.priority DESC, r.item_id
LIMIT $2 OFFSET $3
