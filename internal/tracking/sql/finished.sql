-- Files behind ($3, $4) that are finished, and have not changed since $1.
SELECT f.created_at, f.filename FROM millrace.file AS f
WHERE f.created_at < $1 AND (f.created_at, f.filename) > ($3, $4) AND NOT EXISTS (
    SELECT FROM millrace.pipeline_tracking AS t
    WHERE t.filename = f.filename AND (t.updated_at >= $1
        -- with somebody, or in a queue
        OR 'started' IN (t.shard_splitter_status, t.shard_worker_status, t.mysql_sender_status)
        OR (t.event_ingest_status = 'done' AND t.shard_splitter_status = 'new')
        OR (t.shard_splitter_status = 'done' AND t.shard_worker_status = 'new')
        OR (t.shard_worker_status = 'done' AND t.mysql_sender_status = 'new')
        OR NOT (t.mysql_sender_status = 'done' OR (f.cancelled_at IS NOT NULL AND t.event_ingest_status <> 'started'
            AND 'failed' IN (t.event_ingest_status, t.shard_splitter_status, t.shard_worker_status, t.mysql_sender_status))))
)
ORDER BY f.created_at, f.filename
LIMIT $2
FOR UPDATE OF f SKIP LOCKED
