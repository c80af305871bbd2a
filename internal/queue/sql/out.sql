-- Items that are out: ready without an entry in the outbox or among those that
-- wait for their group; or started.
SELECT r.item_id FROM millrace.ready AS r
WHERE r.stage = $1
    AND NOT EXISTS (SELECT FROM millrace.outbox AS o WHERE o.stage = r.stage AND o.priority = r.priority AND o.item_id = r.item_id)
    AND NOT EXISTS (SELECT FROM millrace.parked AS p WHERE p.stage = r.stage AND p.item_id = r.item_id)
UNION ALL
SELECT c.item_id FROM millrace.claim AS c WHERE c.stage = $1
