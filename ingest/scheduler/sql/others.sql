-- The items of the runs of jobs that go, in the order in which items are locked.
SELECT item_id FROM millrace.executions
WHERE job_id = ANY ($1) AND completed_at IS NULL AND item_id IS NOT NULL
ORDER BY item_id
