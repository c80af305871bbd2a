-- The first items that are ready, whether each has yet to be published, and whether what is
-- published is behind it.
WITH head AS (
    SELECT r.item_id, r.generation, r.priority, EXISTS (
        SELECT FROM millrace.outbox AS o
        WHERE o.stage = r.stage AND o.priority = r.priority AND o.item_id = r.item_id AND o.generation = r.generation
    ) AS unpublished
    FROM millrace.ready AS r WHERE r.stage = $1 ORDER BY r.priority DESC, r.item_id LIMIT $2
)
SELECT h.item_id, h.generation, h.priority, h.unpublished, h.unpublished AND EXISTS (
    SELECT FROM millrace.ready AS r WHERE r.stage = $1 AND r.priority < h.priority
) AS passing
FROM head AS h ORDER BY h.priority DESC, h.item_id
