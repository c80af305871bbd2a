-- In how many seconds the next job is due; see due.sql.
{priorities}
SELECT extract(epoch FROM min(j.due_at) - clock_timestamp())::double precision FROM priorities AS p, LATERAL (
    SELECT due_at FROM millrace.job_status WHERE priority = p.priority AND due_at > now() ORDER BY due_at LIMIT 1
) AS j
