UPDATE millrace.item
SET status = 'started', generation = generation + 1, attempts = attempts + 1,
    worker = nullif($2, ''), taken_at = now(), updated_at = now()
WHERE id = ANY ($1::bigint[])
