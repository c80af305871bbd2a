WITH asked AS MATERIALIZED (
    SELECT u.*, t.id AS item
    FROM unnest($2::bigint[], $3::text[], $4::integer[], $5::integer[], $6::text[], $7::bigint[], $8::text[])
        WITH ORDINALITY AS u (id, name, part, generation, worker, lease, progress, place)
    JOIN LATERAL ({find}) AS t ON u.worker = '' OR t.worker = u.worker
), locked AS (
    SELECT c.item_id FROM millrace.claim AS c
    WHERE c.stage = $1 AND c.item_id IN (SELECT item FROM asked)
    ORDER BY c.item_id FOR UPDATE
), moved AS (
    UPDATE millrace.claim AS c
    SET lease_until = now() + nullif(a.lease, 0) * interval '1 millisecond', given_at = now(),
        progress = CASE a.progress WHEN '' THEN c.progress ELSE a.progress END,
        progress_at = CASE a.progress WHEN '' THEN c.progress_at ELSE now() END
    FROM asked AS a JOIN locked AS l ON l.item_id = a.item
    WHERE c.stage = $1 AND c.item_id = a.item AND (a.generation = 0 OR c.generation = a.generation)
    RETURNING c.item_id, c.generation
)
-- Many callers may have asked for the same item; its lease moves once.
SELECT place FROM asked
WHERE (item, generation) IN (SELECT item_id, generation FROM moved)
    OR generation = 0 AND item IN (SELECT item_id FROM moved)
