SELECT s.name, m.item_id, coalesce(i.key, ''), coalesce(t.filename, ''), t.shard, m.outcome, m.reason
FROM millrace.act_member AS m
JOIN millrace.stage AS s ON s.stage = m.stage
LEFT JOIN millrace.item AS i ON i.id = m.item_id
LEFT JOIN millrace.pipeline_tracking AS t ON t.id = m.item_id
WHERE m.act_id = $1
ORDER BY m.outcome, m.item_id, m.stage
