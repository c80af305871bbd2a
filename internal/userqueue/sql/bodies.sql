SELECT u.place, s.name, t.attempts, coalesce(t.key, ''), coalesce(t."group", ''), t.priority, coalesce(t.payload, 'null')::text, t.created_at
FROM unnest($1::bigint[], $2::smallint[], $3::integer[]) WITH ORDINALITY AS u (item, stage, generation, place)
JOIN millrace.item AS t ON t.id = u.item
JOIN millrace.stage AS s ON s.stage = u.stage
JOIN millrace.ready AS r ON r.stage = u.stage AND r.priority = ANY ('{0,1,2,3,4,5,6,7,8,9}'::smallint[])
    AND r.item_id = u.item AND r.generation = u.generation
