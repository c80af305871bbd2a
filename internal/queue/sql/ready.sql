INSERT INTO millrace.ready (item_id, generation, stage, priority)
SELECT u.id, u.generation, $1, u.priority FROM unnest($2::bigint[], $3::integer[], $4::smallint[]) AS u (id, generation, priority)
