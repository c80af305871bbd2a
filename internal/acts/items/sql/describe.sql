SELECT u.place, json_strip_nulls(json_build_object('id', u.id, 'queue', s.name, 'key', i.key, 'group', i."group",
    'filename', t.filename, 'shard', t.shard))
FROM unnest($1::text[]::bigint[], $2::smallint[]) WITH ORDINALITY AS u (id, part, place)
JOIN millrace.stage AS s ON s.stage = u.part
LEFT JOIN millrace.item AS i ON i.id = u.id
LEFT JOIN millrace.pipeline_tracking AS t ON t.id = u.id
