INSERT INTO millrace.claim (item_id, lease_until, generation, stage)
SELECT u.id, now() + nullif(u.lease, 0) * interval '1 millisecond', u.generation, $1
FROM unnest($2::bigint[], $3::integer[], $4::bigint[]) AS u (id, generation, lease)
ON CONFLICT (item_id, stage) DO UPDATE SET lease_until = excluded.lease_until, generation = excluded.generation
