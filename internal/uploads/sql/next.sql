-- The rows of a job that wait, in the order in which they began to. Those that wait for their time are behind all that
-- have never been tried, and are looked at as far as $3. None waits for more than $4 seconds, unless the clock was set
-- back meanwhile.
SELECT i.row_no, i.attempts, r.input::text FROM (
    SELECT row_no, attempts, due_at, updated_at FROM millrace.upload_item WHERE job_no = $1 AND status = 0
    ORDER BY updated_at, row_no LIMIT $2::integer + $3::integer
) AS i, LATERAL (SELECT input FROM millrace.upload_row WHERE job_no = $1 AND row_no = i.row_no OFFSET 0) AS r
WHERE i.due_at IS NULL OR i.due_at <= now() OR i.due_at > now() + $4 * interval '1 second'
ORDER BY i.updated_at, i.row_no LIMIT $2::integer
