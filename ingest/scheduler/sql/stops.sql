-- Jobs that have been stopped since the last look.
WITH taken AS (
    DELETE FROM millrace.job_stop WHERE id IN (
        SELECT id FROM millrace.job_stop ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
    )
    RETURNING job_id
)
SELECT job_id, (SELECT count(*) FROM taken) FROM taken GROUP BY job_id
