-- +goose Up

-- What counting and tending a million jobs costs.

-- A vacuum of them takes seconds of a processor, and so does reading samples of them. It
-- rests for longer in between, so that runs are not late because of it.
ALTER TABLE millrace.jobs SET (autovacuum_vacuum_cost_delay = 20);
ALTER TABLE millrace.job_schedule SET (autovacuum_vacuum_cost_delay = 20);

-- Jobs are counted as they change, in millrace.tally: how many there are is known without
-- reading them. Kind 900 counts jobs; its keys are ten times the priority, and the place of
-- the status. Kind 901 counts their runs that are under way.
CREATE FUNCTION millrace.job_counters(status text, priority integer, running integer, sign integer)
RETURNS TABLE (kind integer, key integer, n integer) LANGUAGE sql IMMUTABLE AS $$
    VALUES
        (900, priority * 10 + array_position(ARRAY['pending', 'running', 'paused', 'failed', 'orphaned'], status) - 1, sign),
        (901, 0, running * sign)
$$;

-- +goose StatementBegin
CREATE FUNCTION millrace.count_jobs() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, millrace AS $$
#variable_conflict use_column
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO millrace.tally_delta (kind, key, n)
        SELECT kind, key, sum(n) FROM after AS j, millrace.job_counters(j.status, j.priority, j.running, 1)
        GROUP BY kind, key HAVING sum(n) <> 0;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO millrace.tally_delta (kind, key, n)
        SELECT kind, key, sum(n) FROM before AS j, millrace.job_counters(j.status, j.priority, j.running, -1)
        GROUP BY kind, key HAVING sum(n) <> 0;
    ELSE
        INSERT INTO millrace.tally_delta (kind, key, n)
        SELECT kind, key, sum(n) FROM (
            SELECT status, priority, running, 1 AS sign FROM after
            UNION ALL SELECT status, priority, running, -1 FROM before
        ) AS j, millrace.job_counters(j.status, j.priority, j.running, j.sign)
        GROUP BY kind, key HAVING sum(n) <> 0;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION millrace.count_jobs() FROM PUBLIC;

CREATE TRIGGER jobs_made AFTER INSERT ON millrace.jobs
    REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_changed AFTER UPDATE ON millrace.jobs
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();
CREATE TRIGGER jobs_gone AFTER DELETE ON millrace.jobs
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION millrace.count_jobs();

-- Those that there are, which nobody changes before this commits.
INSERT INTO millrace.tally_delta (kind, key, n)
SELECT c.kind, c.key, sum(c.n) FROM millrace.jobs AS j, millrace.job_counters(j.status, j.priority, j.running, 1) AS c
GROUP BY c.kind, c.key HAVING sum(c.n) <> 0;

-- Jobs that wait for the end of a backoff are few as a rule.
CREATE INDEX jobs_resting ON millrace.jobs (backoff_until) WHERE backoff_until IS NOT NULL;

-- +goose Down

DROP INDEX millrace.jobs_resting;
DROP TRIGGER jobs_gone ON millrace.jobs;
DROP TRIGGER jobs_changed ON millrace.jobs;
DROP TRIGGER jobs_made ON millrace.jobs;
DROP FUNCTION millrace.count_jobs(), millrace.job_counters(text, integer, integer, integer);
DELETE FROM millrace.tally_delta WHERE kind IN (900, 901);
DELETE FROM millrace.tally WHERE kind IN (900, 901);
ALTER TABLE millrace.job_schedule RESET (autovacuum_vacuum_cost_delay);
ALTER TABLE millrace.jobs RESET (autovacuum_vacuum_cost_delay);
