SELECT
    stage,
    min(occurred_at) AS first_at,
    count()          AS counted
FROM events
WHERE article_hash = unhex(@hash)
GROUP BY stage
