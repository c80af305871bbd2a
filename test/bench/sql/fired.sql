-- Of the jobs that were due once from $1 to before $2: how many there are; how many have
-- one row in the ledger, and one run, with an item; and how many of the runs have ended
-- well. It is run without nested loops: statistics know nothing yet of what has just come.
WITH due AS MATERIALIZED (
    SELECT s.job_id, s.anchor_at AS at FROM millrace.job_schedule AS s WHERE s.anchor_at >= $1 AND s.anchor_at < $2 AND s.to_at IS NULL
), decided AS (
    SELECT due.job_id, count(l.job_id) AS decisions, bool_and(l.outcome = 'ran' AND l.due_at = due.at) AS ran
    FROM due LEFT JOIN millrace.job_ledger AS l ON l.job_id = due.job_id GROUP BY due.job_id
), ran AS (
    SELECT due.job_id, count(e.id) AS runs, count(i.id) AS items, bool_and(e.status = 'success') AS ended
    FROM due LEFT JOIN millrace.executions AS e ON e.job_id = due.job_id
    LEFT JOIN millrace.item AS i ON i.id = e.item_id GROUP BY due.job_id
)
SELECT count(*), count(*) FILTER (WHERE decisions = 1 AND ran), count(*) FILTER (WHERE runs = 1 AND items = 1), count(*) FILTER (WHERE ended)
FROM decided JOIN ran USING (job_id)
