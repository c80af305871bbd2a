UPDATE millrace.executions AS e SET status = u.status, started_at = u.started_at, completed_at = u.completed_at,
    duration_seconds = u.duration, articles_count = u.articles, error = u.error
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::double precision[], $6::integer[], $7::text[])
    AS u (id, status, started_at, completed_at, duration, articles, error)
WHERE e.id = u.id
