-- Runs that are locked and whose items have changed, and whether they had ended: an item that somebody has
-- tried again is changed after the end of its run.
SELECT e.id, e.job_id, e.item_id, e.status, e.attempt, e.completed_at IS NOT NULL, e.started_at, coalesce(i.status::text, ''),
    coalesce(i.cancelled, false), coalesce(i.error, ''), i.result::text, i.taken_at, i.updated_at,
    coalesce(i.trace_parent, '')
FROM millrace.executions AS e LEFT JOIN millrace.item AS i ON i.id = e.item_id
WHERE e.item_id = ANY ($1) AND (e.completed_at IS NULL OR i.updated_at <> e.completed_at)
ORDER BY e.id
