WITH dropped AS (
    UPDATE millrace.batch_error SET state = 'error', generation = generation + 1
    WHERE state = 'waiting' AND queue = '{queue}' AND project_id = $1
    RETURNING job_id, batch_index
)
UPDATE millrace.batch AS b SET retrying = b.retrying - d.n, error = b.error + d.n, changed_at = now()
FROM (SELECT job_id, batch_index, count(*) AS n FROM dropped GROUP BY job_id, batch_index) AS d
WHERE b.job_id = d.job_id AND b.batch_index = d.batch_index
