WITH made AS (
    INSERT INTO millrace.ready (item_id, generation, stage, priority)
    SELECT u.id, u.generation, $1, u.priority
    FROM unnest($2::bigint[], $3::integer[], $4::smallint[]) AS u (id, generation, priority)
    RETURNING item_id, generation
)
INSERT INTO millrace.outbox (item_id, generation, stage)
SELECT item_id, generation, $1 FROM made
RETURNING id, item_id
