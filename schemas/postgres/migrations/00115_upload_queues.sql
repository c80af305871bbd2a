-- +goose Up

-- Rows of uploads that are worked through queues.
ALTER TABLE millrace.stage ADD COLUMN followed boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN millrace.stage.followed IS 'Rows of uploads follow the items of the queue.';

-- claim is how many items of the job may be in its queue at a time, but for those that wait there to be
-- tried again. A slice begins when as many items have ended, or its time is over. service_ms is how long
-- a worker has an item, on average. link_key signs the links to inputs that no item can hold.
ALTER TABLE millrace.upload
    ADD COLUMN claim       integer NOT NULL DEFAULT 0,
    ADD COLUMN slice_items integer NOT NULL DEFAULT 0,
    ADD COLUMN slice_at    timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN service_ms  real NOT NULL DEFAULT 0,
    ADD COLUMN link_key    uuid NOT NULL DEFAULT gen_random_uuid();

-- item_id is the item of the queue that the row has become, while that may change the row. A row that
-- is PENDING waits until due_at.
ALTER TABLE millrace.upload_item
    ADD COLUMN item_id bigint,
    ADD COLUMN due_at  timestamptz;
CREATE UNIQUE INDEX upload_item_queued ON millrace.upload_item (item_id) WHERE item_id IS NOT NULL;

-- What workers have said of rows: the last result, and the last error.
CREATE TABLE millrace.upload_result (
    job_no integer NOT NULL,
    row_no integer NOT NULL,
    result json,
    error  text,
    PRIMARY KEY (job_no, row_no)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Items may begin with attempts that were made before, and have their own bound of attempts. Only callers
-- that have checked the items can say so.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION millrace.add_items(queue_name text, items json)
RETURNS TABLE (place bigint, item_id bigint, existing boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, millrace AS $$
#variable_conflict use_column
DECLARE
    q smallint;
    ids bigint[];
    fresh bigint[]; -- places
    answered bigint;
    live bigint;
    most integer;
    rate_count integer;
    rate_per interval;
BEGIN
    SELECT s.stage, s.max_items, s.rate_count, s.rate_per_s * interval '1 second' INTO q, most, rate_count, rate_per
    FROM millrace.stage AS s WHERE s.name = queue_name AND s.stage >= 100;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no queue %', queue_name USING ERRCODE = 'no_data_found';
    END IF;
    SELECT coalesce(sum(n), 0) INTO live FROM (
        SELECT kind, n FROM millrace.tally UNION ALL SELECT kind, n FROM millrace.tally_delta
    ) AS t WHERE kind IN (q::integer * 10, q::integer * 10 + 1);
    SELECT array_agg(nextval('millrace.pipeline_tracking_id_seq')) INTO ids FROM generate_series(1, json_array_length(items));
    WITH given AS MATERIALIZED (
        SELECT g.place, ids[g.place] AS id, g.key, g."group" AS grp, coalesce(g.priority, 0::smallint) AS priority, g.run_at, g.payload, coalesce(g.attempts, 0) AS attempts, g.allowed
        FROM ROWS FROM (json_to_recordset(items) AS (key text, "group" text, priority smallint, run_at timestamptz, payload json,
            attempts integer, allowed integer))
            WITH ORDINALITY AS g (key, "group", priority, run_at, payload, attempts, allowed, place)
    ), firsts AS (
        SELECT DISTINCT ON (key) key, id FROM given WHERE key IS NOT NULL ORDER BY key, place
    ), claimed AS (
        INSERT INTO millrace.item_key (stage, key, item_id) SELECT q, key, id FROM firsts ORDER BY key
        ON CONFLICT DO NOTHING
        RETURNING item_id AS id
    ), fresh_items AS MATERIALIZED (
        SELECT given.*, run_at IS NOT NULL AND run_at > now() AS later FROM given
        WHERE key IS NULL OR id IN (SELECT id FROM claimed)
    ), made AS (
        INSERT INTO millrace.item (id, stage, priority, key, "group", payload, attempts, allowed)
        SELECT id, q, priority, key, grp, payload, attempts, allowed FROM fresh_items ORDER BY id
    ), entered AS (
        INSERT INTO millrace.ready (item_id, generation, stage, priority) SELECT id, 1, q, priority FROM fresh_items WHERE NOT later ORDER BY id
    ), announced AS (
        INSERT INTO millrace.outbox (item_id, generation, stage, priority) SELECT id, 1, q, priority FROM fresh_items WHERE NOT later ORDER BY id
    ), scheduled AS (
        INSERT INTO millrace.delayed (item_id, due_at, generation, stage) SELECT id, run_at, 1, q FROM fresh_items WHERE later ORDER BY id
    ), told AS (
        INSERT INTO millrace.history (item_id, attempt, stage, move, status) SELECT id, attempts, q, 'register', 'new' FROM fresh_items ORDER BY id
    ), counted AS (
        INSERT INTO millrace.tally_delta (kind, key, n)
        SELECT u.kind, 0, u.n FROM (
            SELECT count(*) AS total, count(*) FILTER (WHERE NOT later) AS ready, count(*) FILTER (WHERE later) AS later FROM fresh_items
        ) AS c, LATERAL (VALUES (q::integer * 10, c.total), (q::integer * 10 + 4, c.ready), (q::integer * 10 + 5, c.later)) AS u (kind, n)
        WHERE u.n > 0
    )
    SELECT coalesce(array_agg(f.place ORDER BY f.place), '{}') INTO fresh FROM fresh_items AS f;
    IF live + cardinality(fresh) > most THEN
        RAISE EXCEPTION 'the queue % has % live items, and may have %', queue_name, live, most USING ERRCODE = 'configuration_limit_exceeded';
    END IF;
    IF rate_count IS NOT NULL THEN
        -- A statement of its own: it sees all starts before the keys were claimed.
        WITH early AS MATERIALIZED (
            SELECT t.id, t.priority, s.at + rate_per AS due
            FROM unnest(ids) AS i (id) JOIN millrace.item AS t ON t.id = i.id, LATERAL (
                SELECT k.at FROM millrace.key_start AS k WHERE k.stage = q AND k.key = t.key
                ORDER BY k.at DESC OFFSET rate_count - 1 LIMIT 1
            ) AS s
            WHERE s.at + rate_per > now()
        ), unannounced AS (
            DELETE FROM millrace.outbox AS o USING early AS e WHERE o.stage = q AND o.priority = e.priority AND o.item_id = e.id
        ), later AS (
            UPDATE millrace.delayed AS d SET due_at = greatest(d.due_at, e.due) FROM early AS e WHERE d.item_id = e.id AND d.stage = q
        ), unready AS (
            DELETE FROM millrace.ready AS r USING early AS e WHERE r.stage = q AND r.priority = e.priority AND r.item_id = e.id
            RETURNING e.id, e.due
        ), scheduled AS (
            INSERT INTO millrace.delayed (item_id, due_at, generation, stage) SELECT id, due, 1, q FROM unready ORDER BY id
        )
        INSERT INTO millrace.tally_delta (kind, key, n)
        SELECT u.kind, 0, u.n FROM (SELECT count(*) AS n FROM unready) AS c,
            LATERAL (VALUES (q::integer * 10 + 4, -c.n), (q::integer * 10 + 5, c.n)) AS u (kind, n)
        WHERE u.n <> 0;
    END IF;
    RETURN QUERY SELECT p, ids[p], false FROM unnest(fresh) AS p;
    IF cardinality(fresh) = json_array_length(items) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT g.place, k.item_id, true
        FROM json_array_elements(items) WITH ORDINALITY AS g (v, place)
        JOIN millrace.item_key AS k ON k.stage = q AND k.key = g.v->>'key'
        WHERE g.place <> ALL (fresh);
    GET DIAGNOSTICS answered = ROW_COUNT;
    IF answered + cardinality(fresh) < json_array_length(items) THEN
        RAISE EXCEPTION 'an item with one of the keys has ended meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION millrace.add_items(queue_name text, items json)
RETURNS TABLE (place bigint, item_id bigint, existing boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, millrace AS $$
#variable_conflict use_column
DECLARE
    q smallint;
    ids bigint[];
    fresh bigint[]; -- places
    answered bigint;
    live bigint;
    most integer;
    rate_count integer;
    rate_per interval;
BEGIN
    SELECT s.stage, s.max_items, s.rate_count, s.rate_per_s * interval '1 second' INTO q, most, rate_count, rate_per
    FROM millrace.stage AS s WHERE s.name = queue_name AND s.stage >= 100;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no queue %', queue_name USING ERRCODE = 'no_data_found';
    END IF;
    SELECT coalesce(sum(n), 0) INTO live FROM (
        SELECT kind, n FROM millrace.tally UNION ALL SELECT kind, n FROM millrace.tally_delta
    ) AS t WHERE kind IN (q::integer * 10, q::integer * 10 + 1);
    SELECT array_agg(nextval('millrace.pipeline_tracking_id_seq')) INTO ids FROM generate_series(1, json_array_length(items));
    WITH given AS MATERIALIZED (
        SELECT g.place, ids[g.place] AS id, g.key, g."group" AS grp, coalesce(g.priority, 0::smallint) AS priority, g.run_at, g.payload
        FROM ROWS FROM (json_to_recordset(items) AS (key text, "group" text, priority smallint, run_at timestamptz, payload json))
            WITH ORDINALITY AS g (key, "group", priority, run_at, payload, place)
    ), firsts AS (
        SELECT DISTINCT ON (key) key, id FROM given WHERE key IS NOT NULL ORDER BY key, place
    ), claimed AS (
        INSERT INTO millrace.item_key (stage, key, item_id) SELECT q, key, id FROM firsts ORDER BY key
        ON CONFLICT DO NOTHING
        RETURNING item_id AS id
    ), fresh_items AS MATERIALIZED (
        SELECT given.*, run_at IS NOT NULL AND run_at > now() AS later FROM given
        WHERE key IS NULL OR id IN (SELECT id FROM claimed)
    ), made AS (
        INSERT INTO millrace.item (id, stage, priority, key, "group", payload)
        SELECT id, q, priority, key, grp, payload FROM fresh_items ORDER BY id
    ), entered AS (
        INSERT INTO millrace.ready (item_id, generation, stage, priority) SELECT id, 1, q, priority FROM fresh_items WHERE NOT later ORDER BY id
    ), announced AS (
        INSERT INTO millrace.outbox (item_id, generation, stage, priority) SELECT id, 1, q, priority FROM fresh_items WHERE NOT later ORDER BY id
    ), scheduled AS (
        INSERT INTO millrace.delayed (item_id, due_at, generation, stage) SELECT id, run_at, 1, q FROM fresh_items WHERE later ORDER BY id
    ), told AS (
        INSERT INTO millrace.history (item_id, attempt, stage, move, status) SELECT id, 0, q, 'register', 'new' FROM fresh_items ORDER BY id
    ), counted AS (
        INSERT INTO millrace.tally_delta (kind, key, n)
        SELECT u.kind, 0, u.n FROM (
            SELECT count(*) AS total, count(*) FILTER (WHERE NOT later) AS ready, count(*) FILTER (WHERE later) AS later FROM fresh_items
        ) AS c, LATERAL (VALUES (q::integer * 10, c.total), (q::integer * 10 + 4, c.ready), (q::integer * 10 + 5, c.later)) AS u (kind, n)
        WHERE u.n > 0
    )
    SELECT coalesce(array_agg(f.place ORDER BY f.place), '{}') INTO fresh FROM fresh_items AS f;
    IF live + cardinality(fresh) > most THEN
        RAISE EXCEPTION 'the queue % has % live items, and may have %', queue_name, live, most USING ERRCODE = 'configuration_limit_exceeded';
    END IF;
    IF rate_count IS NOT NULL THEN
        -- A statement of its own: it sees all starts before the keys were claimed.
        WITH early AS MATERIALIZED (
            SELECT t.id, t.priority, s.at + rate_per AS due
            FROM unnest(ids) AS i (id) JOIN millrace.item AS t ON t.id = i.id, LATERAL (
                SELECT k.at FROM millrace.key_start AS k WHERE k.stage = q AND k.key = t.key
                ORDER BY k.at DESC OFFSET rate_count - 1 LIMIT 1
            ) AS s
            WHERE s.at + rate_per > now()
        ), unannounced AS (
            DELETE FROM millrace.outbox AS o USING early AS e WHERE o.stage = q AND o.priority = e.priority AND o.item_id = e.id
        ), later AS (
            UPDATE millrace.delayed AS d SET due_at = greatest(d.due_at, e.due) FROM early AS e WHERE d.item_id = e.id AND d.stage = q
        ), unready AS (
            DELETE FROM millrace.ready AS r USING early AS e WHERE r.stage = q AND r.priority = e.priority AND r.item_id = e.id
            RETURNING e.id, e.due
        ), scheduled AS (
            INSERT INTO millrace.delayed (item_id, due_at, generation, stage) SELECT id, due, 1, q FROM unready ORDER BY id
        )
        INSERT INTO millrace.tally_delta (kind, key, n)
        SELECT u.kind, 0, u.n FROM (SELECT count(*) AS n FROM unready) AS c,
            LATERAL (VALUES (q::integer * 10 + 4, -c.n), (q::integer * 10 + 5, c.n)) AS u (kind, n)
        WHERE u.n <> 0;
    END IF;
    RETURN QUERY SELECT p, ids[p], false FROM unnest(fresh) AS p;
    IF cardinality(fresh) = json_array_length(items) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT g.place, k.item_id, true
        FROM json_array_elements(items) WITH ORDINALITY AS g (v, place)
        JOIN millrace.item_key AS k ON k.stage = q AND k.key = g.v->>'key'
        WHERE g.place <> ALL (fresh);
    GET DIAGNOSTICS answered = ROW_COUNT;
    IF answered + cardinality(fresh) < json_array_length(items) THEN
        RAISE EXCEPTION 'an item with one of the keys has ended meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
-- +goose StatementEnd
UPDATE millrace.upload_item SET status = 0, version = version + 1 WHERE status = 1;
UPDATE millrace.upload SET pending = pending + processing, processing = 0 WHERE processing > 0;
DROP TABLE millrace.upload_result;
DROP INDEX millrace.upload_item_queued;
ALTER TABLE millrace.upload_item DROP COLUMN item_id, DROP COLUMN due_at;
ALTER TABLE millrace.upload
    DROP COLUMN claim, DROP COLUMN slice_items, DROP COLUMN slice_at, DROP COLUMN service_ms, DROP COLUMN link_key;
ALTER TABLE millrace.stage DROP COLUMN followed;
