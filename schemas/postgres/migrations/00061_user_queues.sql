-- +goose Up

-- Queues that people make are numbered from here; those below are stages.
CREATE SEQUENCE millrace.queue_number AS smallint MINVALUE 100;
ALTER TABLE millrace.stage
    ADD COLUMN concurrency_per_group integer CHECK (concurrency_per_group > 0),
    ADD COLUMN rate_count  integer CHECK (rate_count > 0),
    ADD COLUMN rate_per_s  double precision CHECK (rate_per_s > 0),
    ADD COLUMN retention_s double precision CHECK (retention_s >= 0),
    ADD COLUMN max_items   integer CHECK (max_items > 0),
    ADD CONSTRAINT rate CHECK ((rate_count IS NULL) = (rate_per_s IS NULL));
COMMENT ON COLUMN millrace.stage.concurrency_per_group IS 'Items of a group that are out at a time; null: any number.';
COMMENT ON COLUMN millrace.stage.rate_count IS 'Starts of items of a key in any rate_per_s seconds; null: any number.';
COMMENT ON COLUMN millrace.stage.rate_per_s IS 'See rate_count.';
COMMENT ON COLUMN millrace.stage.retention_s IS 'Seconds for which finished items are kept; null: for ever.';
COMMENT ON COLUMN millrace.stage.max_items IS 'Items that may be live, and that are kept when finished; null: any number.';

-- The items of these queues. Their numbers come from where those of shards come
-- from: an item has one number among the items of all kinds. No column that
-- moves is indexed; see pipeline_tracking.
CREATE TABLE millrace.item (
    id         bigint PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    taken_at   timestamptz,
    generation integer  NOT NULL DEFAULT 1,
    attempts   integer  NOT NULL DEFAULT 0,
    allowed    integer, -- attempts after which it is dead; null: as the queue says
    stage      smallint NOT NULL,
    priority   smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9),
    status     millrace.stage_status NOT NULL DEFAULT 'new',
    cancelled  boolean  NOT NULL DEFAULT false,
    worker     text, -- who took it last
    error      text, -- the last one
    key        text CHECK (length(key) BETWEEN 1 AND 255),
    "group"    text CHECK (length("group") BETWEEN 1 AND 255),
    payload    json CHECK (octet_length(payload::text) <= 65536),
    result     json
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX item_stage ON millrace.item (stage, id);
CREATE INDEX item_group ON millrace.item (stage, "group", id) WHERE "group" IS NOT NULL;
CREATE INDEX item_by_key ON millrace.item (stage, key, id) WHERE key IS NOT NULL;

-- Keys of items that are new or started.
CREATE TABLE millrace.item_key (
    stage   smallint NOT NULL,
    key     text     NOT NULL,
    item_id bigint   NOT NULL,
    PRIMARY KEY (stage, key)
);

-- Items of queues with a limit that are out: published on WORK, or started. A
-- limit is held by counting these rows.
CREATE TABLE millrace.slot (
    stage   smallint NOT NULL,
    item_id bigint   NOT NULL,
    "group" text,
    PRIMARY KEY (stage, item_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX slot_group ON millrace.slot (stage, "group") WHERE "group" IS NOT NULL;

-- Entries of the outbox whose group has as many items out as it may. They come
-- back to the outbox when one of these is in.
CREATE TABLE millrace.parked (
    stage      smallint NOT NULL,
    item_id    bigint   NOT NULL,
    "group"    text     NOT NULL,
    generation integer  NOT NULL,
    priority   smallint NOT NULL,
    PRIMARY KEY (stage, item_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX parked_order ON millrace.parked (stage, "group", priority DESC, item_id);

-- When items of a key were started, in queues with a rate.
CREATE TABLE millrace.key_start (
    stage smallint    NOT NULL,
    at    timestamptz NOT NULL,
    key   text        NOT NULL
);
CREATE INDEX key_start_key ON millrace.key_start (stage, key, at);
CREATE INDEX key_start_at ON millrace.key_start (stage, at);

-- When items ended. An entry counts while its item was changed last at that time.
CREATE TABLE millrace.finished (
    stage   smallint    NOT NULL,
    at      timestamptz NOT NULL,
    item_id bigint      NOT NULL,
    PRIMARY KEY (stage, at, item_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- +goose StatementBegin
-- Adds items to a queue, in the caller's transaction: a JSON array of objects
-- with payload, key, group, priority and run_at. It answers for each item, by its
-- place from 1, with the id, and whether a live item with that key was there
-- before. It works with the rights of its owner: who may call it may add items
-- and nothing else.
CREATE FUNCTION millrace.enqueue(queue_name text, items json)
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
        SELECT g.place, ids[g.place] AS id, g.v->>'key' AS key, g.v->>'group' AS grp, coalesce((g.v->>'priority')::smallint, 0) AS priority,
            (g.v->>'run_at')::timestamptz AS run_at, g.v->'payload' AS payload
        FROM json_array_elements(items) WITH ORDINALITY AS g (v, place)
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
REVOKE ALL ON FUNCTION millrace.enqueue(text, json) FROM PUBLIC;

-- +goose Down

DROP FUNCTION millrace.enqueue(text, json);
DELETE FROM millrace.ready WHERE stage >= 100;
DELETE FROM millrace.delayed WHERE stage >= 100;
DELETE FROM millrace.claim WHERE stage >= 100;
DELETE FROM millrace.failed WHERE stage >= 100;
DELETE FROM millrace.outbox WHERE stage >= 100;
DELETE FROM millrace.history WHERE stage >= 100;
DELETE FROM millrace.tally WHERE kind >= 1000;
DELETE FROM millrace.tally_delta WHERE kind >= 1000;
DELETE FROM millrace.stage WHERE stage >= 100;
DROP TABLE millrace.item_key, millrace.item, millrace.slot, millrace.parked, millrace.key_start, millrace.finished;
ALTER TABLE millrace.stage DROP CONSTRAINT rate, DROP COLUMN max_items, DROP COLUMN retention_s, DROP COLUMN rate_per_s,
    DROP COLUMN rate_count, DROP COLUMN concurrency_per_group;
DROP SEQUENCE millrace.queue_number;
