INSERT INTO millrace.history (item_id, attempt, stage, move, status, worker, error)
SELECT u.id, u.attempt, $1, $2::text::millrace.move, $5::text::millrace.stage_status, nullif($6, ''), nullif($7, '')
FROM unnest($3::bigint[], $4::integer[]) AS u (id, attempt)
