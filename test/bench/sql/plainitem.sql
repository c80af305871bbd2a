SELECT content_id, job_id, batch_index, position, version, project_id, platform, task_type, keyword_source, pipeline_version,
    permalink, crawled_at, fetch_status, error_category, error_code, fetch_error, read_at
FROM plain_item
WHERE content_id = $1
