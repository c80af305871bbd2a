SELECT max(seq)
FROM funnel
WHERE width = ? AND slot_group = ?
