SELECT e.id, e.job_id, e.item_id, e.started_at, coalesce(i.status::text, ''), coalesce(i.cancelled, false), coalesce(i.error, ''),
    i.result::text, i.taken_at, i.updated_at
FROM millrace.executions AS e LEFT JOIN millrace.item AS i ON i.id = e.item_id
WHERE e.item_id = ANY ($1) AND e.status IN ('queued', 'running')
ORDER BY e.id
FOR UPDATE OF e
