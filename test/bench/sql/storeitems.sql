INSERT INTO item_outcomes (job_id, batch_index, position, version, project_id, platform, task_type, keyword_source,
    pipeline_version, content_id, permalink, crawled_at, fetch_status, error_category, error_code, fetch_error,
    error_details, content, read_at, created_at, seq)
SELECT
    'bench-stored-0', intDiv(number, 50), number % 50, 0, 'bench', 'tiktok', 'research_and_crawl', 'VinFast VF8',
    'crawler_tiktok_v3', lower(hex(MD5(toString(number)))), concat('https://example.com/v/', toString(number)),
    now64(9, 'UTC'), 'success', '', '', '', '', '{}', now64(9, 'UTC'), now64(9, 'UTC'), number
FROM numbers(?, ?)
SETTINGS max_insert_threads = 1, max_block_size = 65536, min_insert_block_size_rows = 500000
