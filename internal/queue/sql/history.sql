INSERT INTO millrace.history (item_id, attempt, stage, move, status, worker, error)
SELECT u.id, u.attempt, $1, $2::text::millrace.move, u.status::millrace.stage_status, nullif(u.worker, ''), nullif(u.error, '')
FROM unnest($3::bigint[], $4::integer[], $5::text[], $6::text[], $7::text[]) AS u (id, attempt, status, worker, error)
