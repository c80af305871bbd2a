SELECT e.id::text, e.task, 0::smallint FROM millrace.batch_error AS e
WHERE e.state = 'waiting' AND e.queue = '{queue}' AND e.project_id = $1 AND e.due_at <= now()
ORDER BY e.due_at, e.id LIMIT $2 FOR UPDATE
