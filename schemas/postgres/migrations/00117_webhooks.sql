-- +goose Up

-- Addresses that items of queues are sent to. No comment: logins of people do not read secrets.
CREATE TABLE millrace.webhook (
    stage       smallint    PRIMARY KEY REFERENCES millrace.stage ON DELETE CASCADE,
    url         text        NOT NULL,
    secret      bytea       NOT NULL,
    timeout_s   real        NOT NULL,
    concurrency integer     NOT NULL,
    changed_at  timestamptz NOT NULL DEFAULT now()
);

-- Hosts that have asked not to be sent anything until a time.
CREATE TABLE millrace.webhook_host (
    host     text        PRIMARY KEY,
    until_at timestamptz NOT NULL
);

-- +goose Down

DROP TABLE millrace.webhook_host, millrace.webhook;
