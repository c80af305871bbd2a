-- In how many seconds the next job is due; see due.sql.
WITH RECURSIVE priorities AS (
    (SELECT priority FROM millrace.jobs WHERE due_at IS NOT NULL ORDER BY priority, due_at DESC LIMIT 1)
    UNION ALL
    SELECT n.priority FROM priorities AS p, LATERAL (
        SELECT j.priority FROM millrace.jobs AS j WHERE j.due_at IS NOT NULL AND j.priority > p.priority
        ORDER BY j.priority, j.due_at DESC LIMIT 1
    ) AS n
)
SELECT extract(epoch FROM min(j.due_at) - clock_timestamp())::double precision FROM priorities AS p, LATERAL (
    SELECT due_at FROM millrace.jobs WHERE priority = p.priority AND due_at > now() ORDER BY due_at LIMIT 1
) AS j
