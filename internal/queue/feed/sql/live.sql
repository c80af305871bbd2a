-- The items of a queue that have not ended, by group: few, however many rows wait or have ended.
WITH q AS MATERIALIZED (
    SELECT stage FROM millrace.stage WHERE name = $1
)
SELECT coalesce(i."group", ''), count(*) FROM (
    SELECT r.item_id FROM q, millrace.ready AS r WHERE r.stage = q.stage
    UNION ALL SELECT d.item_id FROM q, millrace.delayed AS d WHERE d.stage = q.stage
    UNION ALL SELECT c.item_id FROM q, millrace.claim AS c WHERE c.stage = q.stage
) AS live JOIN millrace.item AS i ON i.id = live.item_id
GROUP BY 1
