SELECT u.place, json_strip_nulls(json_build_object('id', u.id, 'queue', coalesce(e.queue, ''), 'job_id', e.job_id,
    'batch_index', e.batch_index, 'position', e.position))
FROM unnest($1::text[]::bigint[], $2::smallint[]) WITH ORDINALITY AS u (id, part, place)
LEFT JOIN millrace.batch_error AS e ON e.id = u.id
