-- The outcomes that count of the items of a batch, a job or a project, in the order of the
-- batches. An empty parameter does not filter. Its order is that of the primary key, so that
-- a page is read without what comes after it.
SELECT *
FROM
(
    SELECT
        job_id,
        batch_index,
        position,
        version,
        toString(project_id)       AS project,
        toString(platform)         AS platform_name,
        toString(task_type)        AS task,
        toString(keyword_source)   AS keyword,
        toString(pipeline_version) AS pipeline,
        content_id,
        permalink,
        crawled_at,
        toString(fetch_status)     AS status,
        toString(error_category)   AS category,
        toString(error_code)       AS code,
        fetch_error,
        read_at,
        created_at
    FROM item_outcomes
    WHERE (@job = '' OR job_id = @job)
      AND (@batch < 0 OR batch_index = @batch)
      AND (@project = '' OR project_id = @project)
      AND (@first OR job_id >= @after_job)
      AND (@first OR (job_id, batch_index, position) > (@after_job, @after_batch, @after_position))
    ORDER BY job_id, batch_index, position, version DESC
    LIMIT 1 BY job_id, batch_index, position
)
WHERE @status = '' OR status = @status
ORDER BY job_id, batch_index, position
LIMIT @limit
