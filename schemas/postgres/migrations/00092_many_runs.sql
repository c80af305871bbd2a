-- +goose Up

-- A burst of runs costs less.

-- Jobs that change alike are counted together.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION millrace.count_jobs() RETURNS trigger
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
            SELECT status, priority, running, sum(sign)::integer AS sign FROM (
                SELECT status, priority, running, 1 AS sign FROM after
                UNION ALL SELECT status, priority, running, -1 FROM before
            ) AS changed
            GROUP BY status, priority, running HAVING sum(sign) <> 0
        ) AS j, millrace.job_counters(j.status, j.priority, j.running, j.sign)
        GROUP BY kind, key HAVING sum(n) <> 0;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Each item is read once, and not once for each of its members. A payload that is a JSON
-- string has its escapes resolved, one that is null is stored as none; both mean what they did.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION millrace.enqueue(queue_name text, items json)
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

-- +goose Down

-- Nothing: the schema before works with these functions.
