WITH gone AS (
    DELETE FROM millrace.parked WHERE stage = $1 RETURNING stage, item_id, generation, priority
)
INSERT INTO millrace.outbox AS o (stage, item_id, generation, priority) SELECT * FROM gone
ON CONFLICT (stage, priority, item_id) DO UPDATE SET generation = greatest(o.generation, excluded.generation)
