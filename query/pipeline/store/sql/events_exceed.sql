-- How many events pass a filter, up to one more than a limit.
SELECT count()
FROM
(
    SELECT 1
    FROM events
    WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
      AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
      AND (@hash = '' OR article_hash = unhex(@hash))
      AND (@url = '' OR article_url = @url)
      AND (@stage = '' OR stage = @stage)
      AND (@source = '' OR source_name = @source)
      AND (@service = '' OR service_name = @service)
      AND (@trace = '' OR trace_id = @trace)
    LIMIT @limit
)
