-- Events and distinct articles of one moment.
SELECT
    stage,
    count()                  AS counted,
    uniqExact(article_hash)  AS articles
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND (@source = '' OR source_name = @source)
GROUP BY stage
