SELECT item_id, stage, generation, true FROM millrace.outbox
UNION ALL
SELECT item_id, stage, generation, true FROM millrace.parked
UNION ALL
SELECT item_id, stage, generation, false FROM millrace.ready
