-- +goose Up

CREATE TYPE millrace.stage_status AS ENUM ('new', 'started', 'done', 'failed');
CREATE TYPE millrace.move AS ENUM ('start', 'done', 'fail', 'retry', 'release', 'again', 'expire', 'cancel', 'register');

CREATE TABLE millrace.file (
    filename     text COLLATE "C" PRIMARY KEY,
    priority     smallint    NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9),
    created_at   timestamptz NOT NULL DEFAULT now(),
    cancelled_at timestamptz
);
CREATE INDEX file_created ON millrace.file (created_at, filename);

-- One row for each shard of each file. No column that moves is indexed, so
-- that an update stays on its page and touches no index; what has to be found
-- by its state stands in the small tables below.
CREATE TABLE millrace.pipeline_tracking (
    id                        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at                timestamptz NOT NULL DEFAULT now(),
    updated_at                timestamptz NOT NULL DEFAULT now(),
    shard                     integer     NOT NULL CHECK (shard >= 0),
    event_ingest_status       millrace.stage_status NOT NULL DEFAULT 'new',
    shard_splitter_status     millrace.stage_status NOT NULL DEFAULT 'new',
    shard_worker_status       millrace.stage_status NOT NULL DEFAULT 'new',
    mysql_sender_status       millrace.stage_status NOT NULL DEFAULT 'new',
    shard_splitter_generation integer NOT NULL DEFAULT 1,
    shard_worker_generation   integer NOT NULL DEFAULT 1,
    mysql_sender_generation   integer NOT NULL DEFAULT 1,
    shard_splitter_attempts   integer NOT NULL DEFAULT 0,
    shard_worker_attempts     integer NOT NULL DEFAULT 0,
    mysql_sender_attempts     integer NOT NULL DEFAULT 0,
    priority                  smallint NOT NULL DEFAULT 0,
    filename                  text COLLATE "C" NOT NULL,
    shard_splitter_allowed    integer, -- attempts after which it is dead; null: as the stage says
    shard_worker_allowed      integer,
    mysql_sender_allowed      integer,
    shard_splitter_taken_at   timestamptz,
    shard_worker_taken_at     timestamptz,
    mysql_sender_taken_at     timestamptz,
    shard_splitter_worker     text, -- who took it last
    shard_worker_worker       text,
    mysql_sender_worker       text,
    shard_splitter_error      text, -- the last one
    shard_worker_error        text,
    mysql_sender_error        text,
    CONSTRAINT uq_filename_shard UNIQUE (filename, shard)
) WITH (fillfactor = 55, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- What stands in a queue now: new at its stage, done at the one before.
CREATE TABLE millrace.ready (
    item_id    bigint      NOT NULL,
    since      timestamptz NOT NULL DEFAULT now(),
    generation integer     NOT NULL,
    stage      smallint    NOT NULL,
    priority   smallint    NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE UNIQUE INDEX ready_order ON millrace.ready (stage, priority DESC, item_id);

-- What will stand in a queue at due_at.
CREATE TABLE millrace.delayed (
    item_id    bigint      NOT NULL,
    due_at     timestamptz NOT NULL,
    generation integer     NOT NULL,
    stage      smallint    NOT NULL,
    PRIMARY KEY (item_id, stage)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX delayed_due ON millrace.delayed (due_at);

-- What is started. Without lease_until it stays so until somebody says more.
CREATE TABLE millrace.claim (
    item_id     bigint   NOT NULL,
    lease_until timestamptz,
    generation  integer  NOT NULL,
    stage       smallint NOT NULL,
    PRIMARY KEY (item_id, stage)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX claim_lease ON millrace.claim (lease_until) WHERE lease_until IS NOT NULL;

-- What has failed. A dead item has no attempt left.
CREATE TABLE millrace.failed (
    item_id   bigint      NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT now(),
    stage     smallint    NOT NULL,
    dead      boolean     NOT NULL,
    PRIMARY KEY (stage, item_id)
);

-- What has become ready and has yet to be put on work.<stage>: a row for each
-- time, written with the change itself.
CREATE TABLE millrace.outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id    bigint   NOT NULL,
    generation integer  NOT NULL,
    stage      smallint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE millrace.history (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id    bigint      NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    tx         xid8        NOT NULL DEFAULT pg_current_xact_id(), -- readers in order wait for those under way
    attempt    integer     NOT NULL,
    stage      smallint    NOT NULL,
    move       millrace.move NOT NULL,
    status     millrace.stage_status NOT NULL, -- after the move
    worker     text,
    error      text
);
CREATE INDEX history_item ON millrace.history (item_id);

-- Counters. A change writes what it adds, and those rows are folded into
-- tally now and then: the sum of both tables is exact at any time, and no row
-- is hot.
CREATE TABLE millrace.tally (
    kind smallint NOT NULL,
    key  integer  NOT NULL,
    n    bigint   NOT NULL,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 50);
CREATE TABLE millrace.tally_delta (
    kind smallint NOT NULL,
    key  integer  NOT NULL,
    n    bigint   NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Switches of the stages that have queues.
CREATE TABLE millrace.stage (
    stage        smallint PRIMARY KEY,
    name         text     NOT NULL,
    paused       boolean  NOT NULL DEFAULT false,
    concurrency  integer  CHECK (concurrency > 0), -- items started at a time by all workers; null: any number
    max_attempts integer  NOT NULL DEFAULT 20 CHECK (max_attempts >= 0), -- after which an item is dead; 0: never
    updated_at   timestamptz NOT NULL DEFAULT now()
);
INSERT INTO millrace.stage (stage, name) VALUES (1, 'shard-splitter'), (2, 'shard-worker'), (3, 'mysql-sender');

-- +goose Down

DROP TABLE millrace.stage, millrace.tally_delta, millrace.tally, millrace.history, millrace.outbox,
    millrace.failed, millrace.claim, millrace.delayed, millrace.ready, millrace.pipeline_tracking, millrace.file;
DROP TYPE millrace.move, millrace.stage_status;
