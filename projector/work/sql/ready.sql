SELECT item_id, stage, generation FROM millrace.ready AS r
WHERE NOT EXISTS (
    SELECT FROM millrace.outbox AS o WHERE o.item_id = r.item_id AND o.stage = r.stage AND o.generation = r.generation
) AND NOT EXISTS (
    SELECT FROM millrace.parked AS p WHERE p.item_id = r.item_id AND p.stage = r.stage AND p.generation = r.generation
)
