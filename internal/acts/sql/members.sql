SELECT coalesce(s.name, e.queue, ''), m.item_id, coalesce(i.key, ''), coalesce(t.filename, ''), t.shard, e.job_id,
    e.batch_index, e.position, m.outcome, m.reason
FROM millrace.act_member AS m
LEFT JOIN millrace.stage AS s ON s.stage = m.stage
LEFT JOIN millrace.item AS i ON i.id = m.item_id AND m.stage >= 0
LEFT JOIN millrace.pipeline_tracking AS t ON t.id = m.item_id AND m.stage >= 0
LEFT JOIN millrace.batch_error AS e ON e.id = m.item_id AND m.stage = -1
WHERE m.act_id = $1 AND (m.stage = -1 OR s.stage IS NOT NULL)
ORDER BY m.outcome, m.item_id, m.stage
