-- +goose Up

-- Which item a message of the stream WORK is about: the messages from
-- first_seq to last_seq, in their order. Written before they are published.
CREATE TABLE millrace.work_batch (
    first_seq   bigint PRIMARY KEY,
    last_seq    bigint      NOT NULL CHECK (last_seq >= first_seq),
    decided_at  timestamptz NOT NULL DEFAULT now(),
    items       bigint[]    NOT NULL,
    stages      smallint[]  NOT NULL,
    generations integer[]   NOT NULL
);

-- How far a stream has been read: everything up to seq has its effects.
CREATE TABLE millrace.work_position (
    stream text   PRIMARY KEY,
    seq    bigint NOT NULL
);

-- +goose Down

DROP TABLE millrace.work_position, millrace.work_batch;
