-- The newest state of each row, without its articles.
SELECT
    stage,
    toUInt32(bucket)    AS start,
    slot_group,
    argMax(events, seq) AS counted,
    max(seq)            AS folded
FROM funnel
WHERE width = 900
  AND source = @source
  AND bucket >= toDateTime(@from, 'UTC')
GROUP BY stage, bucket, slot_group
