-- +goose Up

-- What people add to queues with SQL is checked against the rules that hold over HTTP and NATS.

-- The known name with the least edit distance from an unknown one, as internal/nearest finds it.
-- +goose StatementBegin
CREATE FUNCTION millrace.nearest_name(unknown text, known text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog AS $$
DECLARE
    a text := lower(translate(left(unknown, 64), '_-. ', ''));
    b text;
    candidate text;
    nearest text;
    least_distance integer;
    above integer[];
    line integer[];
BEGIN
    FOREACH candidate IN ARRAY known LOOP
        b := lower(translate(candidate, '_-. ', ''));
        line := ARRAY(SELECT generate_series(0, length(b)));
        FOR i IN 1..length(a) LOOP
            above := line;
            line := ARRAY[i];
            FOR j IN 1..length(b) LOOP
                line := line || least(line[j] + 1, above[j + 1] + 1, above[j] + (substr(a, i, 1) <> substr(b, j, 1))::integer);
            END LOOP;
        END LOOP;
        IF nearest IS NULL OR line[length(b) + 1] < least_distance THEN
            nearest := candidate;
            least_distance := line[length(b) + 1];
        END IF;
    END LOOP;
    RETURN nearest;
END $$;
-- +goose StatementEnd

-- Whether a text is a time of the years 1 to 9999.
-- +goose StatementBegin
CREATE FUNCTION millrace.is_time(value text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$
BEGIN
    RETURN value::timestamptz >= '0001-01-01 00:00:00Z' AND value::timestamptz < '10000-01-01 00:00:00Z';
EXCEPTION WHEN data_exception THEN
    RETURN false;
END $$;
-- +goose StatementEnd

-- The rules that items break, the first 20 of them; null: none.
-- +goose StatementBegin
CREATE FUNCTION millrace.item_faults(items json) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, millrace AS $$
DECLARE
    known CONSTANT text[] := '{group,key,payload,priority,run_at}';
    faults text;
BEGIN
    IF items IS NULL OR json_typeof(items) <> 'array' THEN
        RETURN 'items: must be a JSON array of items';
    END IF;
    WITH given AS (
        SELECT g.place - 1 AS place, g.v FROM json_array_elements(items) WITH ORDINALITY AS g (v, place)
    ), broken AS (
        SELECT place, '' AS member, 'must be a JSON object' AS rule FROM given WHERE json_typeof(v) <> 'object'
        UNION ALL
        SELECT place, '.' || m.key, CASE
            WHEN m.key <> ALL (known) THEN
                format('is no field here: the nearest is %s, of %s', millrace.nearest_name(m.key, known), array_to_string(known, ', '))
            WHEN json_typeof(m.value) = 'null' THEN NULL
            WHEN m.key = 'payload' THEN
                CASE WHEN octet_length(m.value::text) > 65536 THEN 'must be at most 65536 bytes of JSON' END
            WHEN m.key = 'priority' THEN
                CASE WHEN json_typeof(m.value) <> 'number' OR m.value::text !~ '^[0-9]$' THEN 'must be a number from 0 to 9' END
            WHEN json_typeof(m.value) <> 'string' THEN 'must be a string'
            WHEN m.key = 'run_at' THEN
                CASE WHEN NOT millrace.is_time(m.value #>> '{}') THEN 'must be a time, such as 2026-02-10T14:30:00Z' END
            WHEN octet_length(m.value #>> '{}') NOT BETWEEN 1 AND 255 OR m.value #>> '{}' ~ '[\u0001-\u001f\u007f-\u009f]' THEN
                'must be 1 to 255 bytes of UTF-8 without control characters'
        END
        FROM given, json_each(CASE json_typeof(v) WHEN 'object' THEN v ELSE '{}' END) AS m
    ), first AS (
        SELECT place, left(member, 100) AS member, rule FROM broken WHERE rule IS NOT NULL ORDER BY place, member LIMIT 20
    )
    SELECT string_agg(format('items[%s]%s: %s', place, member, rule), '; ' ORDER BY place, member) INTO faults FROM first;
    RETURN faults;
EXCEPTION WHEN data_exception THEN -- of an escape
    RETURN 'items: must not contain the character \u0000 or half of a surrogate pair, such as \ud800: no text of Postgres can';
END $$;
-- +goose StatementEnd

-- What enqueue was, for callers that have checked the items.
-- +goose StatementBegin
CREATE FUNCTION millrace.add_items(queue_name text, items json)
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

-- Who was allowed to call it still is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION millrace.enqueue(queue_name text, items json)
RETURNS TABLE (place bigint, item_id bigint, existing boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, millrace AS $$
#variable_conflict use_column
DECLARE
    faults text := millrace.item_faults(items);
BEGIN
    IF faults IS NOT NULL THEN
        RAISE EXCEPTION 'add items to %: %', queue_name, faults USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY SELECT * FROM millrace.add_items(queue_name, items);
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION millrace.nearest_name(text, text[]), millrace.is_time(text), millrace.item_faults(json),
    millrace.add_items(text, json) FROM PUBLIC;

-- +goose Down

DROP FUNCTION millrace.enqueue(text, json), millrace.item_faults(json), millrace.is_time(text), millrace.nearest_name(text, text[]);
ALTER FUNCTION millrace.add_items(text, json) RENAME TO enqueue;
