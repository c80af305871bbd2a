-- In which buckets of a width some sources have events.
SELECT
    toString(source)                                   AS name,
    arraySort(groupUniqArray(toUnixTimestamp(bucket))) AS begins
FROM funnel
WHERE width = @width
  AND bucket >= toDateTime(@from, 'UTC')
  AND bucket < toDateTime(@to, 'UTC')
  AND has(@sources, toString(source))
GROUP BY source
