-- Seconds between the first times at which articles reached stages. A stage is
-- its place in the pipeline, from 1; a path is an article's places in order,
-- each with its first time in nanoseconds. Kind 0 are the legs of all paths,
-- from each stage to the next that the article reached. Kinds 1 to 3 are crawl
-- to classify, classify to publish, and end to end, of the articles that
-- reached all of them; a place of 0 is one that the pipeline does not have.
-- Clocks may disagree: what is negative counts as nothing. One article of
-- @sample is taken; 64 bits of their hashes tell articles apart, as everywhere
-- that many are held in memory.
SELECT
    leg.1                              AS kind,
    leg.2                              AS origin,
    leg.3                              AS target,
    count()                            AS articles,
    avg(leg.4)                         AS mean,
    quantileExactInclusive(0.5)(leg.4) AS median
FROM
(
    SELECT arrayJoin(arrayConcat(
        arrayMap((a, b) -> (0, a.1, b.1, greatest(0, b.2 - a.2) / 1e9), arrayPopBack(path), arrayPopFront(path)),
        arrayFilter(l -> complete AND l.2 > 0 AND l.3 > 0, [
            (1, toUInt8(@crawl), toUInt8(@classify), greatest(0, classified - crawled) / 1e9),
            (2, toUInt8(@classify), toUInt8(@publish), greatest(0, published - classified) / 1e9),
            (3, toUInt8(@crawl), toUInt8(@publish), greatest(0, published - crawled) / 1e9)
        ])
    )) AS leg
    FROM
    (
        SELECT
            arraySort(groupArray((place, first_at)))      AS path,
            arrayFirst(p -> p.1 = @crawl, path).2         AS crawled,
            arrayFirst(p -> p.1 = @classify, path).2      AS classified,
            arrayFirst(p -> p.1 = @publish, path).2       AS published,
            (@crawl = 0 OR crawled > 0) AND (@classify = 0 OR classified > 0) AND (@publish = 0 OR published > 0) AS complete
        FROM
        (
            SELECT
                reinterpretAsUInt64(article_hash)       AS article,
                toUInt8(indexOf(@stages, stage))        AS place,
                min(toUnixTimestamp64Nano(occurred_at)) AS first_at
            FROM events
            WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
              AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
              AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
              AND (@source = '' OR source_name = @source)
              AND NOT (@skip_reclassified AND is_reclassification)
              AND reinterpretAsUInt32(article_hash) % toUInt32(@sample) = 0
              AND place > 0
            GROUP BY article, place
        )
        GROUP BY article
    )
)
GROUP BY kind, origin, target
ORDER BY kind, origin, target
