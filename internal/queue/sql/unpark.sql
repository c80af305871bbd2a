-- The groups of these items are locked.
WITH groups AS MATERIALIZED (
    SELECT DISTINCT g."group" FROM ({limits}) AS g WHERE g."group" <> ''
), heads AS MATERIALIZED (
    SELECT p.item_id
    FROM groups AS g
    CROSS JOIN (SELECT coalesce(concurrency_per_group, 2147483647) AS most FROM millrace.stage WHERE stage = $1) AS s,
    LATERAL (SELECT count(*) AS n FROM millrace.slot AS o WHERE o.stage = $1 AND o."group" = g."group") AS used,
    LATERAL (
        SELECT item_id FROM millrace.parked AS p WHERE p.stage = $1 AND p."group" = g."group"
        ORDER BY p.priority DESC, p.item_id LIMIT greatest(s.most - used.n, 0)
    ) AS p
), gone AS (
    DELETE FROM millrace.parked AS p USING heads AS h WHERE p.stage = $1 AND p.item_id = h.item_id
    RETURNING p.stage, p.item_id, p.generation, p.priority
)
INSERT INTO millrace.outbox AS o (stage, item_id, generation, priority) SELECT * FROM gone
ON CONFLICT (stage, priority, item_id) DO UPDATE SET generation = greatest(o.generation, excluded.generation)
