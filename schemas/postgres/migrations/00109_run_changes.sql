-- +goose Up

-- What moves items of the queue crawl notes the changes of those that are runs. Triggers noted
-- those of every item whose key began with run:, in any queue.
DROP TRIGGER run_deletions ON millrace.item;
DROP TRIGGER run_changes ON millrace.item;
DROP FUNCTION millrace.note_run_change();
DELETE FROM millrace.run_change AS c
WHERE NOT EXISTS (SELECT FROM millrace.executions AS e WHERE e.item_id = c.item_id);

-- +goose Down

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
CREATE TRIGGER run_changes AFTER UPDATE OF status ON millrace.item
    FOR EACH ROW WHEN (NEW.key LIKE 'run:%' AND OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION millrace.note_run_change();
CREATE TRIGGER run_deletions AFTER DELETE ON millrace.item
    FOR EACH ROW WHEN (OLD.key LIKE 'run:%' AND OLD.status IN ('new', 'started'))
    EXECUTE FUNCTION millrace.note_run_change();
