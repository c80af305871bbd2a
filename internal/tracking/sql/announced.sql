SELECT r.item_id, r.stage, r.generation
FROM millrace.pipeline_tracking AS t
JOIN millrace.ready AS r ON r.stage = $1 AND r.priority = ANY ('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) AND r.item_id = t.id
WHERE t.filename = $2 AND NOT EXISTS (
    SELECT FROM millrace.outbox AS o WHERE o.stage = $1 AND o.priority = t.priority AND o.item_id = t.id
)
ORDER BY r.item_id
