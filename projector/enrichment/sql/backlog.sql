-- How many outcomes wait to be enriched.
SELECT count()
FROM item_outcomes
WHERE seq > ? AND seq <= ? AND (fetch_status = 'success' OR error_category = 'media')
SETTINGS max_threads = 1
