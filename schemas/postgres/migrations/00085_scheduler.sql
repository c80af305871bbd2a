-- +goose Up

-- What the scheduler keeps with a job beside its schedule.
DROP INDEX millrace.jobs_due;
ALTER TABLE millrace.jobs
    DROP COLUMN due_at,
    ADD COLUMN wait_until    timestamptz,
    ADD COLUMN wake_at       timestamptz,
    ADD COLUMN catch_up_from timestamptz;
ALTER TABLE millrace.jobs
    ADD COLUMN due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN status <> 'orphaned' THEN LEAST(forced_at, wake_at, GREATEST(next_run_at, backoff_until, wait_until)) END
    ) STORED;
CREATE INDEX jobs_due ON millrace.jobs (due_at, priority DESC) WHERE due_at IS NOT NULL;
COMMENT ON COLUMN millrace.jobs.wait_until IS 'The scheduler decides about next_run_at then, which has passed: runs that are caught up are spread, and wait for those under way. Null: it does not wait.';
COMMENT ON COLUMN millrace.jobs.wake_at IS 'When the due time that waits for a run to end can run; null: none can.';
COMMENT ON COLUMN millrace.jobs.catch_up_from IS 'No run is caught up before; null: one may be at once.';
COMMENT ON COLUMN millrace.jobs.due_at IS 'When a scheduler has to look at it next: next_run_at, or later while it waits or rests after a failure, or forced_at or wake_at where these are earlier. A paused job has one too: its due times get their rows in the ledger. Null: never.';

-- Changes of items that are runs. A row commits with the change, by whatever way it
-- came: HTTP, NATS, a lease that ended, a queue that was deleted. A scheduler takes it
-- out in the transaction that has the run and its job follow. So each end counts once.
CREATE TABLE millrace.run_change (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id bigint NOT NULL,
    status  text   NOT NULL, -- after the change; deleted: the item is gone
    error   text,
    at      timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- +goose StatementBegin
CREATE FUNCTION millrace.note_run_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, millrace AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO millrace.run_change (item_id, status) VALUES (OLD.id, 'deleted');
        RETURN NULL;
    END IF;
    INSERT INTO millrace.run_change (item_id, status, error) VALUES (NEW.id, NEW.status::text, NEW.error);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Items of runs are told by their keys, so that those of other queues cost nothing.
CREATE TRIGGER run_changes AFTER UPDATE OF status ON millrace.item
    FOR EACH ROW WHEN (NEW.key LIKE 'run:%' AND OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION millrace.note_run_change();
CREATE TRIGGER run_deletions AFTER DELETE ON millrace.item
    FOR EACH ROW WHEN (OLD.key LIKE 'run:%' AND OLD.status IN ('new', 'started'))
    EXECUTE FUNCTION millrace.note_run_change();

-- +goose Down

DROP TRIGGER run_deletions ON millrace.item;
DROP TRIGGER run_changes ON millrace.item;
DROP FUNCTION millrace.note_run_change();
DROP TABLE millrace.run_change;
DROP INDEX millrace.jobs_due;
ALTER TABLE millrace.jobs
    DROP COLUMN due_at, DROP COLUMN catch_up_from, DROP COLUMN wake_at, DROP COLUMN wait_until;
ALTER TABLE millrace.jobs
    ADD COLUMN due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN status <> 'orphaned' THEN LEAST(forced_at, GREATEST(next_run_at, backoff_until)) END
    ) STORED;
CREATE INDEX jobs_due ON millrace.jobs (due_at, priority DESC) WHERE due_at IS NOT NULL;
