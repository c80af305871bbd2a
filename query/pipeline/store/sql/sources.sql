-- A page of sources: first one whose name is what is searched for, then those of
-- most events. Events that are retired, of which the table no longer has all,
-- come from the rows of the funnel: from whole buckets, each in one of some spans
-- of one width. The bounds of all spans are what the index can use.
SELECT
    source,
    counted,
    last_at,
    place,
    count() OVER () AS found,
    largest,
    events
FROM
(
    SELECT
        source,
        counted,
        last_at,
        replaceAll(lowerUTF8(source), '_', ' ')                  AS plain,
        row_number() OVER (ORDER BY counted DESC, source)        AS place,
        max(counted) OVER ()                                     AS largest,
        sum(counted) OVER ()                                     AS events
    FROM
    (
        SELECT
            source,
            sum(n)    AS counted,
            max(seen) AS last_at
        FROM
        (
            SELECT
                toString(source_name) AS source,
                count()               AS n,
                max(occurred_at)      AS seen
            FROM events
            WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
              AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
            GROUP BY source
            UNION ALL
            SELECT
                toString(funnel.source)                 AS source,
                sum(funnel.events)                      AS n,
                toDateTime64(max(bucket), 9, 'UTC')     AS seen
            FROM funnel FINAL
            WHERE funnel.source != ''
              AND has(@widths, width)
              AND bucket >= toDateTime(@first, 'UTC')
              AND bucket < toDateTime(@last, 'UTC')
              AND arrayExists((w, lo, hi) -> width = w AND bucket >= toDateTime(lo, 'UTC') AND bucket < toDateTime(hi, 'UTC'), @widths, @starts, @ends)
            GROUP BY source
        )
        GROUP BY source
    )
)
WHERE arrayAll(word -> position(plain, word) > 0, @words)
ORDER BY plain = @name DESC, place
LIMIT @limit OFFSET @skip
SETTINGS do_not_merge_across_partitions_select_final = 1
