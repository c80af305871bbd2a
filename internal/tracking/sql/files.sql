SELECT f.filename, f.created_at, coalesce(n.updated_at, f.created_at), f.cancelled_at, f.priority, n.shards, n.started, n.done, n.failed
FROM (
    SELECT * FROM millrace.file AS f
    WHERE f.filename LIKE $2 AND ($3::timestamptz IS NULL OR (f.created_at, f.filename) < ($3, $4)) AND {filter}
    ORDER BY f.created_at DESC, f.filename DESC
    LIMIT $1
) AS f, LATERAL (
    SELECT max(t.updated_at) AS updated_at, count(*) AS shards,
        count(*) FILTER (WHERE 'started' IN (t.shard_splitter_status, t.shard_worker_status, t.mysql_sender_status)) AS started,
        count(*) FILTER (WHERE t.mysql_sender_status = 'done') AS done,
        count(*) FILTER (WHERE 'failed' IN (t.event_ingest_status, t.shard_splitter_status, t.shard_worker_status, t.mysql_sender_status)) AS failed
    FROM millrace.pipeline_tracking AS t WHERE t.filename = f.filename
) AS n
ORDER BY f.created_at DESC, f.filename DESC
