-- +goose Up

-- A stage of shards is one kind of queue. What queues have in common says so.
ALTER TABLE millrace.stage
    ADD COLUMN lease_s double precision CHECK (lease_s >= 1),
    ADD COLUMN backoff_s double precision[];
CREATE UNIQUE INDEX stage_name ON millrace.stage (name);
COMMENT ON TABLE millrace.stage IS 'Queues with their switches, one row each: stages of shards, and from 100 on queues of people''s own.';
COMMENT ON COLUMN millrace.stage.stage IS 'Number of the queue; of a stage, in the order of the pipeline.';
COMMENT ON COLUMN millrace.stage.name IS 'Name of the queue.';
COMMENT ON COLUMN millrace.stage.lease_s IS 'Seconds for which a worker has an item when it does not say for how long; null: the worker says.';
COMMENT ON COLUMN millrace.stage.backoff_s IS 'Seconds to wait after each attempt in vain, the last for all that follow; null: the worker says.';

-- The outbox is read in the order in which items are taken. An item that is
-- ready has one entry in a queue at most.
DELETE FROM millrace.outbox AS o USING millrace.outbox AS later
WHERE later.stage = o.stage AND later.item_id = o.item_id AND (later.generation, later.id) > (o.generation, o.id);
ALTER TABLE millrace.outbox DROP COLUMN id, ADD COLUMN priority smallint NOT NULL DEFAULT 0;
UPDATE millrace.outbox AS o SET priority = t.priority FROM millrace.pipeline_tracking AS t WHERE t.id = o.item_id;
CREATE UNIQUE INDEX outbox_order ON millrace.outbox (stage, priority DESC, item_id);

-- Plain daemons are waited for by the server that has their messages.
ALTER TABLE millrace.claim ADD COLUMN plain boolean NOT NULL DEFAULT false;
UPDATE millrace.claim AS c SET plain = true FROM millrace.pipeline_tracking AS t
WHERE t.id = c.item_id AND c.lease_until IS NULL
    AND CASE c.stage WHEN 1 THEN t.shard_splitter_worker WHEN 2 THEN t.shard_worker_worker ELSE t.mysql_sender_worker END = 'nats';
COMMENT ON COLUMN millrace.claim.plain IS 'Whether a NATS daemon without a name has it, which pulled its message and acknowledges it.';

-- Kinds of counters are ten times the number of a queue, and more.
ALTER TABLE millrace.tally ALTER COLUMN kind TYPE integer;
ALTER TABLE millrace.tally_delta ALTER COLUMN kind TYPE integer;

-- +goose Down

ALTER TABLE millrace.tally_delta ALTER COLUMN kind TYPE smallint;
ALTER TABLE millrace.tally ALTER COLUMN kind TYPE smallint;
ALTER TABLE millrace.claim DROP COLUMN plain;
DROP INDEX millrace.outbox_order;
ALTER TABLE millrace.outbox DROP COLUMN priority, ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
DROP INDEX millrace.stage_name;
ALTER TABLE millrace.stage DROP COLUMN backoff_s, DROP COLUMN lease_s;
