-- Runs whose items have changed, as the items are now, and how many changes were taken; gone:
-- an item that was deleted.
WITH taken AS (
    DELETE FROM millrace.run_change WHERE id IN (
        SELECT id FROM millrace.run_change ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
    )
    RETURNING id, item_id, status, error, at
), last AS (
    SELECT DISTINCT ON (item_id) item_id, status, error, at FROM taken ORDER BY item_id, id DESC
)
SELECT last.item_id, last.status, coalesce(last.error, ''), last.at, (SELECT count(*) FROM taken) FROM last
