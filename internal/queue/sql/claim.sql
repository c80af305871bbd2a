INSERT INTO millrace.claim (item_id, lease_until, generation, stage, plain)
SELECT u.id, now() + nullif(u.lease, 0) * interval '1 millisecond', u.generation, $1, u.plain
FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::boolean[]) AS u (id, generation, lease, plain)
