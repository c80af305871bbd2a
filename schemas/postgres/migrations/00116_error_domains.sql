-- +goose Up

-- Domains that ask for fewer requests, or cannot answer, by the reports of the workers of a queue. The next item that is
-- tried again for such a domain waits until next_at, and the one after it for delay_ms more. No comment: logins of
-- people do not read it.
CREATE TABLE millrace.error_domain (
    stage      smallint    NOT NULL,
    domain     text        NOT NULL,
    delay_ms   integer     NOT NULL,
    changed_at timestamptz NOT NULL, -- delay_ms
    next_at    timestamptz NOT NULL,
    PRIMARY KEY (stage, domain)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- +goose Down

DROP TABLE millrace.error_domain;
