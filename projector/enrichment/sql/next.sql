-- The first sequence of a range with outcomes to be enriched; 0: there is none.
SELECT min(seq)
FROM item_outcomes
WHERE seq > ? AND seq <= ? AND (fetch_status = 'success' OR error_category = 'media')
SETTINGS max_threads = 1
