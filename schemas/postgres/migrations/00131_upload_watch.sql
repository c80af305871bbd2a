-- +goose Up

-- Files in watched places, by their paths; the path '' is the place itself. The fingerprint is what a listing tells of
-- a file, and seen_at when it last changed. No table has a comment: logins of people read none.
CREATE TABLE millrace.upload_watched (
    place       text NOT NULL,
    path        text NOT NULL,
    fingerprint text NOT NULL,
    state       text NOT NULL DEFAULT 'WAITING' CHECK (state IN ('WAITING', 'TAKEN', 'SAME', 'FAILED')),
    upload      uuid,
    last_error  text,
    attempts    integer NOT NULL DEFAULT 0,
    seen_at     timestamptz NOT NULL DEFAULT now(),
    due_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (place, path)
);

-- What was taken from a place, by the SHA-256 of its content: it is not taken again under any path.
CREATE TABLE millrace.upload_taken (
    place    text  NOT NULL,
    sha256   bytea NOT NULL,
    path     text  NOT NULL,
    upload   uuid  NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (place, sha256)
);

-- +goose Down
DROP TABLE millrace.upload_taken, millrace.upload_watched;
