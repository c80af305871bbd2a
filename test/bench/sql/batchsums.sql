-- The sums of the batches of a job, how many do not add up, and the items that are errors, all of one instant.
SELECT b.batches, b.items, b.ok, b.error, b.retrying, b.wrong, e.error, e.retrying
FROM (
    SELECT
        count(*) AS batches,
        coalesce(sum(content_count), 0) AS items,
        coalesce(sum(ok), 0) AS ok,
        coalesce(sum(error), 0) AS error,
        coalesce(sum(retrying), 0) AS retrying,
        count(*) FILTER (WHERE ok + error + retrying <> content_count) AS wrong
    FROM millrace.batch
    WHERE job_id = $1
) AS b, (
    SELECT count(*) FILTER (WHERE state = 'error') AS error, count(*) FILTER (WHERE state <> 'error') AS retrying
    FROM millrace.batch_error
    WHERE job_id = $1
) AS e
