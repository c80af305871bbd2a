WITH inside AS (
    DELETE FROM millrace.slot WHERE stage = $2 AND item_id = $1
)
INSERT INTO millrace.outbox (item_id, stage, generation, priority)
SELECT item_id, stage, generation, priority FROM millrace.ready
WHERE stage = $2 AND priority = ANY ('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) AND item_id = $1 AND generation = $3
ON CONFLICT (stage, priority, item_id) DO UPDATE SET generation = excluded.generation
