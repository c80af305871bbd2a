-- Sources by their events. Those of retired events, of which the table no longer
-- has all, come from the rows of the funnel: from whole buckets, each in one of
-- some spans of one width. The bounds of all spans are what the index can use.
SELECT
    source,
    sum(n)          AS counted,
    count() OVER () AS sources
FROM
(
    SELECT
        source_name AS source,
        count()     AS n
    FROM events
    WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
      AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
    GROUP BY source
    UNION ALL
    SELECT
        source,
        sum(events) AS n
    FROM funnel FINAL
    WHERE source != ''
      AND has(@widths, width)
      AND bucket >= toDateTime(@first, 'UTC')
      AND bucket < toDateTime(@last, 'UTC')
      AND arrayExists((w, lo, hi) -> width = w AND bucket >= toDateTime(lo, 'UTC') AND bucket < toDateTime(hi, 'UTC'), @widths, @starts, @ends)
    GROUP BY source
)
GROUP BY source
ORDER BY counted DESC, source
LIMIT @limit
SETTINGS do_not_merge_across_partitions_select_final = 1
