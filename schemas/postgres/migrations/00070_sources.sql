-- +goose Up

-- Sources that are crawled. Their ids are UUIDs of version 7: their order is that
-- in which the sources were made.
CREATE TABLE millrace.source (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    url        text NOT NULL CHECK (length(url) BETWEEN 1 AND 2048),
    rate_limit integer NOT NULL CHECK (rate_limit > 0),
    max_depth  integer NOT NULL CHECK (max_depth > 0),
    enabled    boolean NOT NULL,
    selectors  json NOT NULL CHECK (octet_length(selectors::text) <= 65536),
    priority   text NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'critical')),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX source_url ON millrace.source (url, id);

COMMENT ON TABLE millrace.source IS 'Sources that are crawled, one row each.';
COMMENT ON COLUMN millrace.source.id IS 'Names the source, also in events.';
COMMENT ON COLUMN millrace.source.name IS 'What people call it.';
COMMENT ON COLUMN millrace.source.url IS 'Where its crawl begins.';
COMMENT ON COLUMN millrace.source.rate_limit IS 'Requests a second that it allows.';
COMMENT ON COLUMN millrace.source.max_depth IS 'How many links away from its URL it is crawled.';
COMMENT ON COLUMN millrace.source.enabled IS 'Whether it is crawled.';
COMMENT ON COLUMN millrace.source.selectors IS 'Where its pages have their parts, by the name of the part.';
COMMENT ON COLUMN millrace.source.priority IS 'How urgent its crawls are: low, normal, high or critical.';
COMMENT ON COLUMN millrace.source.created_at IS 'When the source was made.';
COMMENT ON COLUMN millrace.source.updated_at IS 'When a field was last changed.';

-- Messages that a transaction has decided to publish, until they are on their
-- stream. Those of one key are published in the order of their ids.
CREATE TABLE millrace.message_outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream     text  NOT NULL,
    key        text  NOT NULL,
    subject    text  NOT NULL,
    message_id text  NOT NULL,
    body       bytea NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT now(),
    after_seq  bigint -- where the stream ended before the message was published first; null: it was not yet
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX message_outbox_order ON millrace.message_outbox (stream, id);

-- +goose Down

DROP TABLE millrace.message_outbox;
DROP TABLE millrace.source;
