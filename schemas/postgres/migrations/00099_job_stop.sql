-- +goose Up

-- Jobs that have been stopped (paused, orphaned or deleted) with runs under way. A row commits
-- with the change of the job, whatever made it. A scheduler removes the row in the transaction
-- that cancels the runs which no worker has.
CREATE TABLE millrace.job_stop (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- +goose StatementBegin
CREATE FUNCTION millrace.note_job_stop() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, millrace AS $$
BEGIN
    INSERT INTO millrace.job_stop (job_id) VALUES (OLD.id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION millrace.note_job_stop() FROM PUBLIC;

CREATE TRIGGER job_stops AFTER UPDATE OF status ON millrace.job_status
    FOR EACH ROW WHEN (NEW.running > 0 AND NEW.status IN ('paused', 'orphaned') AND OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION millrace.note_job_stop();
CREATE TRIGGER job_deletions AFTER DELETE ON millrace.job_status
    FOR EACH ROW WHEN (OLD.running > 0)
    EXECUTE FUNCTION millrace.note_job_stop();

-- Runs that have not ended, by their jobs.
CREATE INDEX executions_open ON millrace.executions (job_id) WHERE completed_at IS NULL;

-- Jobs that were stopped before this migration, and runs of jobs that were deleted.
INSERT INTO millrace.job_stop (job_id)
SELECT DISTINCT e.job_id FROM millrace.executions AS e LEFT JOIN millrace.job_status AS j ON j.id = e.job_id
WHERE e.completed_at IS NULL AND (j.id IS NULL OR j.status IN ('paused', 'orphaned'));

-- +goose Down

DROP INDEX millrace.executions_open;
DROP TRIGGER job_deletions ON millrace.job_status;
DROP TRIGGER job_stops ON millrace.job_status;
DROP FUNCTION millrace.note_job_stop();
DROP TABLE millrace.job_stop;
