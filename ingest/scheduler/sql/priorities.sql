-- The priorities that there are, each from one end of the index of due times: at its due
-- end are the entries of jobs that have moved on.
WITH RECURSIVE priorities AS (
    (SELECT priority FROM millrace.job_status WHERE due_at IS NOT NULL ORDER BY priority, due_at DESC LIMIT 1)
    UNION ALL
    SELECT n.priority FROM priorities AS p, LATERAL (
        SELECT j.priority FROM millrace.job_status AS j WHERE j.due_at IS NOT NULL AND j.priority > p.priority
        ORDER BY j.priority, j.due_at DESC LIMIT 1
    ) AS n
)
