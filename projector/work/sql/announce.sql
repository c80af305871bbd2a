INSERT INTO millrace.outbox (item_id, stage, generation)
SELECT r.item_id, r.stage, r.generation
FROM unnest($1::bigint[], $2::smallint[], $3::integer[]) AS u (item, stage, generation)
JOIN millrace.pipeline_tracking AS t ON t.id = u.item
JOIN millrace.ready AS r ON r.item_id = u.item AND r.stage = u.stage AND r.priority = t.priority AND r.generation = u.generation
WHERE EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = $4 AND (classid::bigint << 32 | objid::bigint) = $5
)
