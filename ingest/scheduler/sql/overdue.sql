-- For how many seconds the first job has been due; 0 when none is. See due.sql.
{priorities}
SELECT coalesce(greatest(extract(epoch FROM clock_timestamp() - min(j.due_at)), 0), 0)::double precision
FROM priorities AS p, LATERAL (
    SELECT due_at FROM millrace.job_status WHERE priority = p.priority AND due_at <= now() ORDER BY due_at LIMIT 1
) AS j
