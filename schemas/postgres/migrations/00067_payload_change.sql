-- +goose Up

-- Payloads that items had before somebody changed them, to have them tried again.
CREATE TABLE millrace.payload_change (
    item_id bigint      NOT NULL,
    id      bigint      GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL DEFAULT now(),
    attempt integer     NOT NULL, -- attempts made with it, and with those before
    caller  text        NOT NULL, -- the subject of the token; empty: a server without tokens
    payload json,
    PRIMARY KEY (item_id, id)
);

-- +goose Down

DROP TABLE millrace.payload_change;
