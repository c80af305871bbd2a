-- A page of articles by the time from one stage to another, the slowest first.
-- The times are the first ones within the window, as for throughput. Only
-- numbers are held of many articles, told apart by 64 bits.
WITH page AS
(
    SELECT
        reinterpretAsUInt64(reverse(substring(article_hash, 1, 8)))                          AS id,
        minIf(toUnixTimestamp64Nano(occurred_at), stage = @stage)                            AS first_at,
        greatest(0, minIf(toUnixTimestamp64Nano(occurred_at), stage = @until) - first_at)    AS span
    FROM events
    WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
      AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
      AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
      AND (@source = '' OR source_name = @source)
      AND (stage = @stage OR stage = @until)
    GROUP BY id
    HAVING countIf(stage = @stage) > 0 AND countIf(stage = @until) > 0
       AND (span < toInt64(@after) OR (span = toInt64(@after) AND id > toUInt64(@after_id)))
    ORDER BY span DESC, id
    LIMIT @limit
)
SELECT
    lower(hex(article_hash))                                                       AS hash,
    argMin(if(canonical_url = '', article_url, canonical_url), (occurred_at, seq)) AS url,
    argMin(source_name, (occurred_at, seq))                                        AS source,
    argMax(trace_id, (trace_id != '', occurred_at, seq))                           AS trace,
    minIf(occurred_at, stage = @stage)                                             AS begun,
    minIf(occurred_at, stage = @until)                                             AS ended,
    greatest(0, toUnixTimestamp64Nano(ended) - toUnixTimestamp64Nano(begun))       AS took
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND (stage = @stage OR stage = @until)
  AND reinterpretAsUInt64(reverse(substring(article_hash, 1, 8))) GLOBAL IN (SELECT id FROM page)
GROUP BY article_hash
ORDER BY took DESC, hash
