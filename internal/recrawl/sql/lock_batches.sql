SELECT b.job_id, b.batch_index, b.ok, b.error, b.retrying, b.errors, b.platform, b.task_type, b.keyword
FROM millrace.batch AS b
WHERE (b.job_id, b.batch_index) IN (SELECT e.job_id, e.batch_index FROM millrace.batch_error AS e WHERE {which})
ORDER BY b.job_id, b.batch_index FOR NO KEY UPDATE
