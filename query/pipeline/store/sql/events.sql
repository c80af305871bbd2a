-- A page of events, newest first: as many as were found, or fewer, up to the one
-- whose metadata fills the page. An empty parameter does not filter. The cursor
-- is the last event of the page before; its first condition is what the primary
-- key can use.
SELECT * EXCEPT (held)
FROM
(
    SELECT
        *,
        count() OVER ()                                                                                                   AS found,
        sum(length(metadata)) OVER (ORDER BY occurred_at DESC, seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS held
    FROM
    (
        SELECT
            seq,
            occurred_at,
            received_at,
            stage,
            source_name,
            service_name,
            domain,
            article_url,
            lower(hex(article_hash)) AS hash,
            canonical_url,
            trace_id,
            idempotency_key,
            metadata,
            metadata_schema_version,
            model_version,
            channel,
            is_reclassification
        FROM events
        WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
          AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
          AND occurred_at <= fromUnixTimestamp64Nano(toInt64(@cursor_at), 'UTC')
          AND (occurred_at < fromUnixTimestamp64Nano(toInt64(@cursor_at), 'UTC') OR seq < @cursor_seq)
          AND (@hash = '' OR article_hash = unhex(@hash))
          AND (@url = '' OR article_url = @url)
          AND (@stage = '' OR stage = @stage)
          AND (@source = '' OR source_name = @source)
          AND (@service = '' OR service_name = @service)
          AND (@trace = '' OR trace_id = @trace)
        ORDER BY occurred_at DESC, seq DESC
        LIMIT @limit
    )
)
WHERE held - length(metadata) < @bytes
ORDER BY occurred_at DESC, seq DESC
