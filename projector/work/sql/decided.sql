DELETE FROM millrace.outbox AS o
USING unnest($1::bigint[], $2::smallint[], $3::integer[], $4::smallint[]) AS u (item, stage, generation, priority)
WHERE o.stage = u.stage AND o.priority = u.priority AND o.item_id = u.item AND o.generation = u.generation
