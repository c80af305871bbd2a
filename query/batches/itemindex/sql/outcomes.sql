-- Outcomes of a range of sequences, in no order.
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
    created_at,
    seq
FROM item_outcomes
WHERE seq >= ? AND seq <= ?
SETTINGS max_threads = 1, max_block_size = 8192, max_execution_time = 0
