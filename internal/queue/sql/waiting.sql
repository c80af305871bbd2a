SELECT s.stage, o.priority
FROM millrace.stage AS s, LATERAL (
    SELECT priority FROM millrace.outbox WHERE stage = s.stage ORDER BY priority DESC, item_id LIMIT 1
) AS o
WHERE s.stage <> ALL (coalesce($1::smallint[], '{}'))
ORDER BY s.stage
