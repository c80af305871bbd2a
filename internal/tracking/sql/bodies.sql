SELECT u.place, t.filename, t.shard,
    CASE u.stage WHEN 1 THEN t.shard_splitter_attempts WHEN 2 THEN t.shard_worker_attempts ELSE t.mysql_sender_attempts END,
    t.created_at
FROM unnest($1::bigint[], $2::smallint[], $3::integer[]) WITH ORDINALITY AS u (item, stage, generation, place)
JOIN millrace.pipeline_tracking AS t ON t.id = u.item
JOIN millrace.ready AS r ON r.stage = u.stage AND r.priority = ANY ('{0,1,2,3,4,5,6,7,8,9}'::smallint[])
    AND r.item_id = u.item AND r.generation = u.generation
