INSERT INTO millrace.failed (item_id, stage, dead)
SELECT u.id, $1, u.dead FROM unnest($2::bigint[], $3::boolean[]) AS u (id, dead)
