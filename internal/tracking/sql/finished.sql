SELECT f.filename FROM millrace.file AS f
WHERE f.created_at < $1 AND NOT EXISTS (
    SELECT FROM millrace.pipeline_tracking AS t
    WHERE t.filename = f.filename AND (t.updated_at >= $1 OR NOT (t.mysql_sender_status = 'done' OR (f.cancelled_at IS NOT NULL
        AND 'failed' IN (t.event_ingest_status, t.shard_splitter_status, t.shard_worker_status, t.mysql_sender_status)
        AND 'started' NOT IN (t.event_ingest_status, t.shard_splitter_status, t.shard_worker_status, t.mysql_sender_status))))
)
ORDER BY f.created_at, f.filename
LIMIT $2
FOR UPDATE OF f SKIP LOCKED
