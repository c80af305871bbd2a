-- The newest state of each row, without its articles; the two rows of a key add up.
SELECT
    stage,
    start,
    slot_group,
    sum(counted) AS events,
    max(folded)  AS upto
FROM
(
    SELECT
        stage,
        toUInt32(bucket)           AS start,
        slot_group,
        argMax(funnel.events, seq) AS counted,
        max(seq)                   AS folded
    FROM funnel
    WHERE width = 900
      AND source = @source
      AND bucket >= toDateTime(@from, 'UTC')
    GROUP BY stage, bucket, slot_group, recent
)
GROUP BY stage, start, slot_group
