-- A page of articles that reached a stage between two times and none after it,
-- in the order of these times. Candidates come from recent events; then all
-- events of the candidates that are kept are looked at, so that an article that
-- has long been through and is only seen again does not count, unless what shows
-- it is retired; and in the end what is shown of a page. Only numbers are held of many articles, told apart by 64 bits.
WITH
    candidates AS
    (
        SELECT reinterpretAsUInt64(reverse(substring(article_hash, 1, 8))) AS id
        FROM events
        WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
          AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
          AND (@source = '' OR source_name = @source)
          AND has(@stages, stage)
        GROUP BY id
        HAVING countIf(stage = @stage) > 0 AND countIf(stage != @stage) = 0
    ),
    page AS
    (
        SELECT
            reinterpretAsUInt64(reverse(substring(article_hash, 1, 8))) AS id,
            min(occurred_at)                                            AS first_at
        FROM events
        WHERE seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
          AND has(@stages, stage)
          AND id GLOBAL IN (SELECT id FROM candidates)
        GROUP BY id
        HAVING countIf(stage != @stage) = 0
           AND first_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
           AND first_at <= fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
           AND (toUnixTimestamp64Nano(first_at), id) > (toInt64(@after), toUInt64(@after_id))
        ORDER BY first_at, id
        LIMIT @limit
    )
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
  AND reinterpretAsUInt64(reverse(substring(article_hash, 1, 8))) GLOBAL IN (SELECT id FROM page)
GROUP BY article_hash
ORDER BY reached, hash
