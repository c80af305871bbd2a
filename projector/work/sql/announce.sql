WITH entered AS (
    INSERT INTO millrace.outbox (item_id, stage, generation, priority)
    SELECT r.item_id, r.stage, r.generation, r.priority
    FROM unnest($1::bigint[], $2::smallint[], $3::integer[]) AS u (item, stage, generation)
    JOIN millrace.ready AS r ON r.stage = u.stage AND r.priority = ANY ('{0,1,2,3,4,5,6,7,8,9}'::smallint[])
        AND r.item_id = u.item AND r.generation = u.generation
    WHERE EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND pid = $4 AND (classid::bigint << 32 | objid::bigint) = $5
    )
    ON CONFLICT (stage, priority, item_id) DO UPDATE SET generation = excluded.generation
    RETURNING stage, item_id
), inside AS (
    -- What is not on the stream does not count as out.
    DELETE FROM millrace.slot AS s USING entered AS e WHERE s.stage = e.stage AND s.item_id = e.item_id
)
SELECT FROM entered
