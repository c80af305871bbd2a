-- The outcomes of a range of sequences that are enriched. Errors of the category media have the
-- metadata of the item.
SELECT
    job_id,
    batch_index,
    position,
    version,
    toString(project_id)     AS project,
    toString(platform)       AS platform_name,
    toString(keyword_source) AS keyword,
    content_id,
    crawled_at,
    content,
    read_at,
    seq
FROM item_outcomes
WHERE seq > ? AND seq <= ? AND (fetch_status = 'success' OR error_category = 'media')
ORDER BY seq, position
SETTINGS max_threads = 1
