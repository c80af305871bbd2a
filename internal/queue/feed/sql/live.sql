-- The items of a queue that have not ended, by group, and how many of them workers have: few, however many rows wait
-- or have ended. $2: with those that wait for their time.
WITH q AS MATERIALIZED (
    SELECT stage FROM millrace.stage WHERE name = $1
)
SELECT coalesce(i."group", ''), count(*), count(*) FILTER (WHERE live.started) FROM (
    SELECT r.item_id, false AS started FROM q, millrace.ready AS r WHERE r.stage = q.stage
    UNION ALL SELECT d.item_id, false FROM q, millrace.delayed AS d WHERE $2::boolean AND d.stage = q.stage
    UNION ALL SELECT c.item_id, true FROM q, millrace.claim AS c WHERE c.stage = q.stage
) AS live JOIN millrace.item AS i ON i.id = live.item_id
GROUP BY 1
