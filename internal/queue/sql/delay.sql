INSERT INTO millrace.delayed (item_id, due_at, generation, stage)
SELECT u.id, now() + u.delay * interval '1 millisecond', u.generation, $1
FROM unnest($2::bigint[], $3::integer[], $4::bigint[]) AS u (id, generation, delay)
