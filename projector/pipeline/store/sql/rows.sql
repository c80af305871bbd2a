SELECT toUInt32(bucket), source, stage, recent = 1, events, article_set, seq
FROM funnel FINAL
WHERE width = ? AND bucket IN (SELECT toDateTime(arrayJoin(?), 'UTC')) AND slot_group = ?
