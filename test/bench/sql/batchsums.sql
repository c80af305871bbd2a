-- The sums of the batches of a job, how many do not add up, and the items that are errors, all of one instant.
SELECT
    count(*),
    coalesce(sum(content_count), 0),
    coalesce(sum(ok), 0),
    coalesce(sum(error), 0),
    coalesce(sum(retrying), 0),
    count(*) FILTER (WHERE ok + error + retrying <> content_count),
    (SELECT count(*) FROM millrace.batch_error WHERE job_id = $1 AND state = 'error'),
    (SELECT count(*) FROM millrace.batch_error WHERE job_id = $1 AND state <> 'error')
FROM millrace.batch
WHERE job_id = $1
