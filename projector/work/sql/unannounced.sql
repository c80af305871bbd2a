SELECT r.item_id, r.stage, r.generation
FROM millrace.ready AS r
WHERE NOT EXISTS (
    SELECT 1 FROM millrace.outbox AS o
    WHERE o.item_id = r.item_id AND o.stage = r.stage AND o.generation = r.generation
)
