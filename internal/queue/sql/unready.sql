WITH gone AS (
    DELETE FROM millrace.ready AS r
    USING unnest($2::bigint[], $3::smallint[]) AS u (id, priority)
    WHERE r.stage = $1 AND r.priority = u.priority AND r.item_id = u.id
    RETURNING 1
)
INSERT INTO millrace.tally_delta (kind, key, n)
SELECT $1::integer * 10 + 4, 0, -count(*) FROM gone HAVING count(*) > 0
