SELECT c.item_id, c.stage, c.generation
FROM millrace.claim AS c
JOIN millrace.pipeline_tracking AS t ON t.id = c.item_id
WHERE c.lease_until IS NULL
    AND CASE c.stage WHEN 1 THEN t.shard_splitter_worker WHEN 2 THEN t.shard_worker_worker ELSE t.mysql_sender_worker END = $1
