SELECT DISTINCT width, toUInt32(bucket)
FROM funnel
WHERE slot_group = ?
