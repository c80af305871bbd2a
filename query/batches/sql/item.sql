-- All outcomes of items with a content id, the newest crawls first. All columns are in the
-- projection by_content_id.
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
WHERE content_id = @id
ORDER BY crawled_at DESC NULLS LAST, read_at DESC
LIMIT @limit
SETTINGS max_threads = 1
