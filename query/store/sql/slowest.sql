-- A page of articles by the time from one stage to another, the slowest first.
-- The times are the first ones within the window, as for throughput.
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
GROUP BY article_hash
HAVING countIf(stage = @stage) > 0 AND countIf(stage = @until) > 0
   AND (took < toInt64(@after) OR (took = toInt64(@after) AND hash > @after_hash))
ORDER BY took DESC, hash
LIMIT @limit
