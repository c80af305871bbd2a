UPDATE millrace.executions AS e SET status = u.status, started_at = u.started_at, completed_at = u.completed_at,
    duration_seconds = u.duration, articles_count = u.articles, error = u.error, attempt = e.attempt + CASE WHEN u.attempt THEN 1 ELSE 0 END
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::double precision[], $6::integer[], $7::text[], $8::boolean[])
    AS u (id, status, started_at, completed_at, duration, articles, error, attempt)
WHERE e.id = u.id
