-- The items are locked, and only now it is sure that nothing has moved.
WITH kept AS (
    SELECT DISTINCT filename FROM millrace.pipeline_tracking WHERE filename = ANY ($2::text[]) AND updated_at >= $1
), gone AS (
    DELETE FROM millrace.pipeline_tracking AS t
    WHERE t.filename = ANY ($2::text[]) AND t.filename NOT IN (SELECT filename FROM kept)
    RETURNING t.id, t.shard, t.event_ingest_status AS s0, t.shard_splitter_status AS s1, t.shard_worker_status AS s2, t.mysql_sender_status AS s3
), files AS (
    DELETE FROM millrace.file WHERE filename = ANY ($2::text[]) AND filename NOT IN (SELECT filename FROM kept)
    RETURNING 1
), told AS (
    DELETE FROM millrace.history WHERE item_id IN (SELECT id FROM gone)
), announced AS (
    DELETE FROM millrace.outbox WHERE item_id IN (SELECT id FROM gone)
), dead AS (
    DELETE FROM millrace.failed WHERE item_id IN (SELECT id FROM gone)
    RETURNING stage, dead
), counted AS (
    INSERT INTO millrace.tally_delta (kind, key, n)
    SELECT 100, shard, -count(*) FROM gone GROUP BY shard
    UNION ALL SELECT 101, shard, -count(*) FROM gone WHERE s3 = 'done' GROUP BY shard
    UNION ALL SELECT 102, shard, -count(*) FROM gone WHERE s3 = 'failed' GROUP BY shard
    UNION ALL SELECT stage * 10 + 6, 0, -count(*) FROM dead WHERE dead GROUP BY stage
    UNION ALL SELECT u.stage * 10 + array_position(enum_range(NULL::millrace.stage_status), u.status) - 1, 0, -count(*)
        FROM gone, LATERAL (VALUES (0, s0), (1, s1), (2, s2), (3, s3)) AS u (stage, status) GROUP BY u.stage, u.status
)
SELECT count(*) FROM files
