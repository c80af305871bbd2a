SELECT r.priority, r.item_id, r.generation, t.filename, t.shard, t.created_at
FROM (
    SELECT priority, item_id, generation FROM millrace.ready
    WHERE stage = $1 AND priority <= $4 AND (priority < $4 OR item_id > $5)
    ORDER BY priority DESC, item_id LIMIT $2 OFFSET $3
) AS r
JOIN millrace.pipeline_tracking AS t ON t.id = r.item_id
ORDER BY r.priority DESC, r.item_id
