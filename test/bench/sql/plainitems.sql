CREATE TABLE plain_item AS
SELECT md5(i::text) AS content_id, 'bench-stored-0'::text AS job_id, i / 50 AS batch_index, i %% 50 AS position, 0::bigint AS version,
    'bench'::text AS project_id, 'tiktok'::text AS platform, 'research_and_crawl'::text AS task_type,
    'VinFast VF8'::text AS keyword_source, 'crawler_tiktok_v3'::text AS pipeline_version,
    'https://example.com/v/' || i AS permalink, now() AS crawled_at, 'success'::text AS fetch_status,
    ''::text AS error_category, ''::text AS error_code, ''::text AS fetch_error, now() AS read_at
FROM generate_series(0, %d - 1) AS i;
ALTER TABLE plain_item ADD PRIMARY KEY (content_id);
ANALYZE plain_item;
