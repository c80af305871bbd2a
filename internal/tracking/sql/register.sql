WITH f AS (
    SELECT priority, cancelled_at FROM millrace.file WHERE filename = $1
), made AS (
    INSERT INTO millrace.pipeline_tracking (filename, shard, priority, event_ingest_status, trace_parent)
    SELECT $1, u.shard, f.priority, 'started', nullif($3, '')
    FROM f, (SELECT DISTINCT unnest($2::integer[]) AS shard ORDER BY shard) AS u
    ON CONFLICT (filename, shard) DO NOTHING
    RETURNING id, shard
), told AS (
    INSERT INTO millrace.history (item_id, attempt, stage, move, status)
    SELECT id, 0, 0, 'register', 'started' FROM made
), counted AS (
    INSERT INTO millrace.tally_delta (kind, key, n)
    SELECT 100, shard, 1 FROM made
    UNION ALL
    SELECT u.kind, 0, (SELECT count(*) FROM made) FROM (VALUES (1), (10), (20), (30)) AS u (kind)
)
SELECT (SELECT count(*) FROM made), (SELECT cancelled_at IS NOT NULL FROM f)
