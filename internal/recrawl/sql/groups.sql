-- The projects that have rows which are due, one after the other by the index, however many
-- rows wait.
WITH RECURSIVE project (id) AS (
    (
        SELECT e.project_id FROM millrace.batch_error AS e WHERE e.state = 'waiting' AND e.queue = '{queue}'
        ORDER BY e.project_id LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT e.project_id FROM millrace.batch_error AS e
        WHERE e.state = 'waiting' AND e.queue = '{queue}' AND e.project_id > p.id ORDER BY e.project_id LIMIT 1
    ) FROM project AS p WHERE p.id IS NOT NULL
)
-- The limit keeps the planner from joining with all rows that are due, which it does while it does not know how many
-- there are.
SELECT p.id FROM project AS p, LATERAL (
    SELECT FROM millrace.batch_error AS e
    WHERE e.state = 'waiting' AND e.queue = '{queue}' AND e.project_id = p.id AND e.due_at <= now()
    LIMIT 1
) AS due WHERE p.id IS NOT NULL
