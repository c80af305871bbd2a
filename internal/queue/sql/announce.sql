-- An entry of an earlier readiness may still be there, of an item that was
-- started without its message.
INSERT INTO millrace.outbox AS o (stage, item_id, generation, priority)
SELECT $1, u.id, u.generation, u.priority FROM unnest($2::bigint[], $3::integer[], $4::smallint[]) AS u (id, generation, priority)
ON CONFLICT (stage, priority, item_id) DO UPDATE SET generation = greatest(o.generation, excluded.generation)
