-- +goose Up

-- A bulk act on items of queues: what was asked for, by whom, and how far it is.
CREATE TABLE millrace.act (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT now(),
    worked_at   timestamptz NOT NULL DEFAULT now(), -- when it had a turn last
    ended_at    timestamptz,
    matched     integer NOT NULL,
    done        integer NOT NULL DEFAULT 0,
    skipped     integer NOT NULL DEFAULT 0,
    failed      integer NOT NULL DEFAULT 0,
    more        boolean NOT NULL, -- whether the filter matched more than one act takes
    state       text    NOT NULL CHECK (state IN ('running', 'finished', 'stopped')),
    move        text    NOT NULL CHECK (move IN ('retry', 'cancel')),
    caller      text    NOT NULL, -- the subject of the token; empty: a server without tokens
    request_key text, -- by which the caller knows a request again
    filter      json    NOT NULL,
    CHECK ((state = 'running') = (ended_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX act_running ON millrace.act (worked_at, id) WHERE state = 'running';
CREATE UNIQUE INDEX act_request ON millrace.act (caller, request_key) WHERE request_key IS NOT NULL;

-- What an act has yet to do: the members of one turn each. A row goes in the
-- transaction that moves its members and counts them.
CREATE TABLE millrace.act_batch (
    act_id      bigint    NOT NULL REFERENCES millrace.act (id) ON DELETE CASCADE,
    place       integer   NOT NULL,
    stage       smallint  NOT NULL,
    items       bigint[]  NOT NULL,
    generations integer[] NOT NULL,
    PRIMARY KEY (act_id, place)
);

-- The first members of an act that it did not move, and why.
CREATE TABLE millrace.act_member (
    act_id  bigint   NOT NULL REFERENCES millrace.act (id) ON DELETE CASCADE,
    item_id bigint   NOT NULL,
    stage   smallint NOT NULL,
    outcome text     NOT NULL CHECK (outcome IN ('skipped', 'failed')),
    reason  text     NOT NULL,
    PRIMARY KEY (act_id, item_id, stage)
);

-- +goose Down

DROP TABLE millrace.act_member, millrace.act_batch, millrace.act;
