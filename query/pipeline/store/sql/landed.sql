-- Up to where each slot group has counted.
SELECT
    slot_group,
    max(seq) AS folded
FROM funnel
GROUP BY slot_group
