-- The items of a queue that have not ended, by group, and how many of them workers have: few, however many rows wait
-- or have ended. $2: with those that wait for their time. Others may have added more items than any window has:
-- beyond the window $3 it is enough to know that there is no room. The items are found one by one, by index, whatever the
-- statistics say of tables that were empty a moment ago.
WITH q AS MATERIALIZED (
    SELECT stage FROM millrace.stage WHERE name = $1
), live AS MATERIALIZED (
    (
        SELECT item_id, false AS started FROM millrace.ready WHERE stage = (SELECT stage FROM q)
        ORDER BY priority DESC, item_id LIMIT $3
    )
    UNION ALL (
        SELECT item_id, false FROM millrace.delayed WHERE $2::boolean AND stage = (SELECT stage FROM q)
        LIMIT $3
    )
    UNION ALL SELECT item_id, true FROM millrace.claim WHERE stage = (SELECT stage FROM q)
)
SELECT coalesce(i."group", ''), count(*), count(*) FILTER (WHERE live.started)
FROM live, LATERAL (SELECT "group" FROM millrace.item WHERE id = live.item_id LIMIT 1) AS i
GROUP BY 1
