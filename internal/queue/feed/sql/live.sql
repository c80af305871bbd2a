-- How many items of the queue $1 have not ended, by group, and how many of them workers have. $2: items that wait for
-- their time count, too. Of the items that are ready, and of those that wait, $3 are read at most: as many fill the
-- window. Each item is looked up by its index, even if the statistics still describe empty tables.
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
