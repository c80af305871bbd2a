SELECT shard, updated_at, event_ingest_status,
    shard_splitter_status, shard_splitter_generation, shard_splitter_attempts, coalesce(shard_splitter_worker, ''), shard_splitter_taken_at, coalesce(shard_splitter_error, ''),
    shard_worker_status, shard_worker_generation, shard_worker_attempts, coalesce(shard_worker_worker, ''), shard_worker_taken_at, coalesce(shard_worker_error, ''),
    mysql_sender_status, mysql_sender_generation, mysql_sender_attempts, coalesce(mysql_sender_worker, ''), mysql_sender_taken_at, coalesce(mysql_sender_error, '')
FROM millrace.pipeline_tracking
WHERE filename = $1
ORDER BY shard
