SELECT max(b.first_seq + m.place - 1)
FROM millrace.work_batch AS b,
    unnest(b.items, b.stages, b.generations) WITH ORDINALITY AS m (item, stage, generation, place)
WHERE b.items @> ARRAY[$1::bigint] AND m.item = $1 AND m.stage = $2 AND m.generation = $3
