SELECT t.id, t.generation, t.attempts, t.priority, coalesce(t.key, ''), coalesce(t."group", ''), coalesce(t.payload, 'null')::text,
    coalesce(t.result, 'null')::text, coalesce(t.worker, ''), coalesce(t.error, ''), t.created_at, t.updated_at, c.lease_until,
    coalesce(c.progress, ''), c.progress_at, d.due_at,
    CASE
        WHEN t.status = 'new' AND d.item_id IS NOT NULL THEN 'scheduled'
        WHEN t.status = 'failed' AND t.cancelled THEN 'cancelled'
        WHEN t.status = 'failed' AND f.dead THEN 'dead'
        ELSE t.status::text END
FROM {from} AS t
LEFT JOIN millrace.claim AS c ON c.item_id = t.id AND c.stage = t.stage
LEFT JOIN millrace.delayed AS d ON d.item_id = t.id AND d.stage = t.stage
LEFT JOIN millrace.failed AS f ON f.stage = t.stage AND f.item_id = t.id
ORDER BY t.id
