-- The runs of jobs whose items no worker has, in the order in which items are locked.
SELECT e.id, e.job_id, e.item_id
FROM millrace.executions AS e JOIN millrace.item AS i ON i.id = e.item_id AND i.status = 'new'
WHERE e.job_id = ANY ($1) AND e.completed_at IS NULL
ORDER BY e.item_id
