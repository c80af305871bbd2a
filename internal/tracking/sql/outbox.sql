SELECT o.id, o.item_id, o.stage, o.generation, t.filename, t.shard,
    CASE o.stage WHEN 1 THEN t.shard_splitter_attempts WHEN 2 THEN t.shard_worker_attempts ELSE t.mysql_sender_attempts END,
    t.created_at
FROM (SELECT * FROM millrace.outbox ORDER BY id LIMIT $1) AS o
JOIN millrace.pipeline_tracking AS t ON t.id = o.item_id
ORDER BY o.id
