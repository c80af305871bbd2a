SELECT u.place, t.filename, t.shard,
    CASE u.stage WHEN 1 THEN t.shard_splitter_attempts WHEN 2 THEN t.shard_worker_attempts ELSE t.mysql_sender_attempts END,
    t.created_at, coalesce(t.trace_parent, '')
FROM unnest($1::bigint[], $2::smallint[], $3::integer[]) WITH ORDINALITY AS u (item, stage, generation, place)
JOIN millrace.pipeline_tracking AS t ON t.id = u.item, LATERAL (
    SELECT FROM millrace.ready AS r
    WHERE r.stage = u.stage AND r.priority = t.priority AND r.item_id = u.item AND r.generation = u.generation
    LIMIT 1
) AS r
