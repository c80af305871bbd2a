-- +goose Up

-- Whoever deletes a queue locks its row. Who adds items waits for that, and then
-- finds that there is no such queue: no item outlives its queue.
-- +goose StatementBegin
CREATE FUNCTION millrace.check_queue_of_items() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, millrace AS $$
DECLARE
    q smallint;
BEGIN
    FOR q IN SELECT DISTINCT a.stage FROM added AS a ORDER BY a.stage LOOP
        PERFORM FROM millrace.stage AS s WHERE s.stage = q FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'queue % was deleted meanwhile', q USING ERRCODE = 'no_data_found';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION millrace.check_queue_of_items() FROM PUBLIC;
CREATE TRIGGER item_queue AFTER INSERT ON millrace.item REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION millrace.check_queue_of_items();

-- +goose Down

DROP TRIGGER item_queue ON millrace.item;
DROP FUNCTION millrace.check_queue_of_items();
