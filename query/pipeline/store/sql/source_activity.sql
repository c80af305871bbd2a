-- In which buckets of a width some sources have events, and how many.
SELECT
    name,
    arraySort(groupArray(begin))                                    AS begins,
    arrayMap(b -> b.2, arraySort(b -> b.1, groupArray((begin, n)))) AS counted
FROM
(
    SELECT
        toString(source)        AS name,
        toUnixTimestamp(bucket) AS begin,
        sum(funnel.events)      AS n
    FROM funnel FINAL
    WHERE width = @width
      AND bucket >= toDateTime(@from, 'UTC')
      AND bucket < toDateTime(@to, 'UTC')
      AND has(@sources, toString(source))
    GROUP BY source, bucket
)
GROUP BY name
SETTINGS do_not_merge_across_partitions_select_final = 1
