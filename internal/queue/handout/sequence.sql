SELECT max(b.first_seq + m.place - 1)
FROM (
    SELECT * FROM millrace.work_batch
    WHERE items @> ARRAY[$1::bigint]
        -- Batches follow each other: that of the floor, and those behind it.
        AND first_seq >= coalesce((SELECT max(first_seq) FROM millrace.work_batch WHERE first_seq <= $4), 0)
) AS b, unnest(b.items, b.stages, b.generations) WITH ORDINALITY AS m (item, stage, generation, place)
WHERE m.item = $1 AND m.stage = $2 AND m.generation = $3 AND b.first_seq + m.place - 1 > $4
