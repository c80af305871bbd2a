-- Open runs that are not as their items have been for a minute. What was noted meanwhile, and
-- not followed yet, is noted twice: runs are what their items are.
INSERT INTO millrace.run_change (item_id, status, error)
SELECT e.item_id, coalesce(i.status::text, 'deleted'), i.error
FROM millrace.executions AS e LEFT JOIN millrace.item AS i ON i.id = e.item_id
WHERE e.completed_at IS NULL AND e.item_id IS NOT NULL
    AND (e.status, coalesce(i.status::text, 'deleted')) NOT IN (('queued', 'new'), ('running', 'started'))
    AND coalesce(i.updated_at < now() - interval '1 minute', true)
LIMIT 10000
