UPDATE millrace.pipeline_tracking AS t
SET {stage}_status = u.status::millrace.stage_status, {stage}_generation = u.generation, {stage}_attempts = u.attempts,
    {stage}_allowed = nullif(u.allowed, 0), {stage}_worker = nullif(u.worker, ''),
    {stage}_taken_at = CASE WHEN $8 THEN now() ELSE t.{stage}_taken_at END,
    {stage}_error = coalesce(nullif(u.error, ''), t.{stage}_error),
    updated_at = now()
FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::integer[], $5::integer[], $6::text[], $7::text[])
    AS u (id, status, generation, attempts, allowed, worker, error)
WHERE t.id = u.id
