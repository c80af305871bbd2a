-- A page of articles that reached a stage between two times and none after it,
-- in the order of these times. The inner query finds candidates among recent
-- events; the outer one looks at all events of the candidates, so that an
-- article that has long been through and is only seen again does not count.
SELECT
    lower(hex(article_hash))                                                       AS hash,
    argMin(if(canonical_url = '', article_url, canonical_url), (occurred_at, seq)) AS url,
    argMin(source_name, (occurred_at, seq))                                        AS source,
    argMax(trace_id, (trace_id != '', occurred_at, seq))                           AS trace,
    minIf(occurred_at, stage = @stage)                                             AS reached,
    max(occurred_at)                                                               AS last_at,
    count()                                                                        AS counted
FROM events
WHERE seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND article_hash IN
  (
      SELECT article_hash
      FROM events
      WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
        AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
        AND (@source = '' OR source_name = @source)
        AND has(@stages, stage)
      GROUP BY article_hash
      HAVING countIf(stage = @stage) > 0 AND countIf(stage != @stage) = 0
  )
GROUP BY article_hash
HAVING countIf(has(@stages, stage) AND stage != @stage) = 0
   AND reached >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
   AND reached <= fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
   AND (toUnixTimestamp64Nano(reached), hash) > (toInt64(@after), @after_hash)
ORDER BY reached, hash
LIMIT @limit
