WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock($1, 0) AS mine -- one folds, the others need not
), gone AS (
    DELETE FROM millrace.tally_delta
    WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM millrace.tally_delta AS d, mine WHERE mine.mine LIMIT $2))
    RETURNING kind, key, n
), sums AS (
    INSERT INTO millrace.tally AS t (kind, key, n)
    SELECT kind, key, sum(n) FROM gone GROUP BY kind, key ORDER BY kind, key
    ON CONFLICT (kind, key) DO UPDATE SET n = t.n + excluded.n
)
SELECT 1 FROM gone
