-- How much the sequences of a range have to be enriched.
SELECT seq, count() AS items, sum(length(content)) AS bytes
FROM item_outcomes
WHERE seq > ? AND seq <= ? AND (fetch_status = 'success' OR error_category = 'media')
GROUP BY seq
ORDER BY seq
SETTINGS max_threads = 1
