INSERT INTO millrace.outbox (item_id, generation, stage)
SELECT u.id, u.generation, $1 FROM unnest($2::bigint[], $3::integer[]) AS u (id, generation)
