-- The items are locked. The rows are found one by one, by index, whatever the
-- statistics say of a table that was empty a moment ago.
WITH gone AS (
    DELETE FROM millrace.ready WHERE ctid = ANY (ARRAY(
        SELECT r.ctid FROM unnest($2::bigint[], $3::smallint[]) AS u (id, priority), LATERAL (
            SELECT ctid FROM millrace.ready WHERE stage = $1 AND priority = u.priority AND item_id = u.id LIMIT 1
        ) AS r
    ))
    RETURNING 1
)
INSERT INTO millrace.tally_delta (kind, key, n)
SELECT $1::integer * 10 + 4, 0, -count(*) FROM gone HAVING count(*) > 0
