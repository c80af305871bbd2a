SELECT t.id, coalesce(t.key, ''), 0, t.priority, t.created_at,
    t.status, t.generation, t.attempts, coalesce(t.allowed, 0), coalesce(t.worker, ''),
    true, 0, 0, coalesce(t.trace_parent, '')
FROM millrace.item AS t
WHERE t.stage = {queue}
