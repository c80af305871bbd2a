-- The items are locked. The entries are found one by one, by index, whatever the
-- statistics say of a table that was empty a moment ago.
DELETE FROM millrace.outbox WHERE ctid = ANY (ARRAY(
    SELECT o.ctid FROM unnest($2::bigint[], $3::integer[], $4::smallint[]) AS u (id, generation, priority), LATERAL (
        SELECT ctid FROM millrace.outbox
        WHERE stage = $1 AND priority = u.priority AND item_id = u.id AND generation = u.generation
        LIMIT 1
    ) AS o
))
RETURNING item_id
