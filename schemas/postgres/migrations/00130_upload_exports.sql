-- +goose Up

-- Files of results of uploads that are made in the background and kept until expires_at. Each attempt writes
-- an object of its own, and only that of the last one counts. Until due_at nobody else takes the export: the
-- process that makes it moves due_at on. No table has a comment: logins of people read none.
CREATE TABLE millrace.upload_export (
    id          uuid    PRIMARY KEY,
    job_no      integer NOT NULL REFERENCES millrace.upload,
    owner_no    integer NOT NULL REFERENCES millrace.upload_owner,
    format      text    NOT NULL,
    exact       boolean NOT NULL,
    state       text    NOT NULL DEFAULT 'QUEUED' CHECK (state IN ('QUEUED', 'RUNNING', 'DONE', 'FAILED')),
    attempts    integer NOT NULL DEFAULT 0,
    rows        bigint  NOT NULL DEFAULT 0,
    total       bigint  NOT NULL DEFAULT 0,
    size        bigint  NOT NULL DEFAULT 0,
    sha256      bytea,
    last_error  text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    due_at      timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz
);
CREATE INDEX upload_export_job ON millrace.upload_export (job_no);
CREATE INDEX upload_export_owner ON millrace.upload_export (owner_no);
CREATE INDEX upload_export_due ON millrace.upload_export (due_at) WHERE state IN ('QUEUED', 'RUNNING');

-- +goose Down
DROP TABLE millrace.upload_export;
