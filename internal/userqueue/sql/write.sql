UPDATE millrace.item AS t
SET status = u.status::millrace.stage_status, generation = u.generation, attempts = u.attempts,
    allowed = nullif(u.allowed, 0), worker = nullif(u.worker, ''),
    taken_at = CASE WHEN $8 THEN now() ELSE t.taken_at END,
    error = coalesce(nullif(u.error, ''), t.error),
    updated_at = now()
FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::integer[], $5::integer[], $6::text[], $7::text[])
    AS u (id, status, generation, attempts, allowed, worker, error)
WHERE t.id = u.id
