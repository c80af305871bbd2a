INSERT INTO millrace.parked AS p (stage, item_id, generation, priority, "group")
SELECT $1::smallint, u.* FROM unnest($2::bigint[], $3::integer[], $4::smallint[], $5::text[]) AS u
ON CONFLICT (stage, item_id) DO UPDATE SET generation = excluded.generation
