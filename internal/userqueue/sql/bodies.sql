SELECT u.place, s.name, t.attempts, coalesce(t.key, ''), coalesce(t."group", ''), t.priority, coalesce(t.payload, 'null')::text, t.created_at, coalesce(t.trace_parent, '')
FROM unnest($1::bigint[], $2::smallint[], $3::integer[]) WITH ORDINALITY AS u (item, stage, generation, place)
JOIN millrace.item AS t ON t.id = u.item
JOIN millrace.stage AS s ON s.stage = u.stage, LATERAL (
    SELECT FROM millrace.ready AS r
    WHERE r.stage = u.stage AND r.priority = t.priority AND r.item_id = u.item AND r.generation = u.generation
    LIMIT 1
) AS r
