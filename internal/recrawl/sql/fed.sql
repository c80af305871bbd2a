-- Rows that no item can hold are errors.
WITH fed AS (
    UPDATE millrace.batch_error AS e SET item_id = u.item, fault = u.fault,
        state = CASE WHEN u.item IS NULL THEN 'error' ELSE 'queued' END,
        generation = e.generation + (u.item IS NULL)::integer
    FROM unnest($1::text[], $2::bigint[], $3::text[]) AS u (id, item, fault)
    WHERE e.id = u.id::bigint
    RETURNING e.job_id, e.batch_index, e.state
)
UPDATE millrace.batch AS b SET retrying = b.retrying - f.n, error = b.error + f.n, changed_at = now()
FROM (
    SELECT job_id, batch_index, count(*) AS n FROM fed WHERE state = 'error' GROUP BY job_id, batch_index
) AS f
WHERE b.job_id = f.job_id AND b.batch_index = f.batch_index
