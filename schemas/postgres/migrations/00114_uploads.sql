-- +goose Up

-- Files that people upload, and their rows. No table has a comment: logins of people read none.

-- Users with uploads, and what all of theirs take together.
CREATE TABLE millrace.upload_owner (
    no      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject text   NOT NULL UNIQUE,
    rows    bigint NOT NULL DEFAULT 0 CHECK (rows >= 0),
    bytes   bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0)
);

-- A job, from when its file begins to come in. changed_at never goes back: each transaction that
-- changes items of the job first changes this row, so the order of updated_at is that of commits.
CREATE TABLE millrace.upload (
    no             integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             uuid    NOT NULL UNIQUE,
    owner_no       integer NOT NULL REFERENCES millrace.upload_owner,
    address        text    NOT NULL DEFAULT '',
    name           text    NOT NULL DEFAULT '',
    file_name      text    NOT NULL DEFAULT '',
    processor      text    NOT NULL DEFAULT '',
    mapping        json    NOT NULL DEFAULT '{}',
    kind           text    NOT NULL DEFAULT '' CHECK (kind IN ('', 'csv', 'ndjson', 'xlsx')),
    encoding       text    NOT NULL DEFAULT '',
    delimiter      text    NOT NULL DEFAULT '',
    lone_cr        boolean NOT NULL DEFAULT false,
    header         json,
    size           bigint  NOT NULL DEFAULT 0 CHECK (size >= 0),
    sha256         bytea,
    queue_state    text    NOT NULL DEFAULT 'QUEUED'
        CHECK (queue_state IN ('QUEUED', 'RUNNING', 'PAUSED', 'DONE', 'FAILED')),
    created_at     timestamptz NOT NULL DEFAULT now(),
    received_at    timestamptz,
    started_at     timestamptz,
    finished_at    timestamptz,
    cancelled_at   timestamptz,
    deleted_at     timestamptz,
    last_heartbeat timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),
    attempts       integer NOT NULL DEFAULT 0,
    last_error     text,
    read_rows      integer NOT NULL DEFAULT 0 CHECK (read_rows >= 0),
    read_all       boolean NOT NULL DEFAULT false,
    rejected       integer NOT NULL DEFAULT 0 CHECK (rejected >= 0),
    pending        integer NOT NULL DEFAULT 0 CHECK (pending >= 0),
    processing     integer NOT NULL DEFAULT 0 CHECK (processing >= 0),
    done           integer NOT NULL DEFAULT 0 CHECK (done >= 0),
    error          integer NOT NULL DEFAULT 0 CHECK (error >= 0),
    not_found      integer NOT NULL DEFAULT 0 CHECK (not_found >= 0),
    skipped        integer NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    rows_sec       real    NOT NULL DEFAULT 0,
    items_sec      real    NOT NULL DEFAULT 0,
    CONSTRAINT upload_rows CHECK (pending + processing + done + error + not_found + skipped + rejected = read_rows)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX upload_list ON millrace.upload (owner_no, created_at DESC, no DESC);
CREATE INDEX upload_all ON millrace.upload (created_at DESC, no DESC);
CREATE INDEX upload_work ON millrace.upload (no)
    WHERE queue_state IN ('QUEUED', 'RUNNING') OR deleted_at IS NOT NULL OR received_at IS NULL;

-- What a row was, which does not change: a list of cells by the header of the job, or an object.
CREATE TABLE millrace.upload_row (
    job_no integer NOT NULL,
    row_no integer NOT NULL,
    input  json    NOT NULL,
    PRIMARY KEY (job_no, row_no)
);

-- Where a row is. What moves is narrow: a change of a row writes all of it again.
CREATE TABLE millrace.upload_item (
    job_no     integer  NOT NULL,
    row_no     integer  NOT NULL,
    owner_no   integer  NOT NULL,
    status     smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 5),
    attempts   smallint NOT NULL DEFAULT 0,
    version    integer  NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (job_no, row_no)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX upload_item_changed ON millrace.upload_item (job_no, status, updated_at, row_no);
CREATE INDEX upload_item_row ON millrace.upload_item (job_no, status, row_no);

-- Rows that break a rule, and are no items.
CREATE TABLE millrace.upload_reject (
    job_no  integer NOT NULL,
    row_no  integer NOT NULL,
    line    bigint  NOT NULL,
    code    text    NOT NULL,
    error   text    NOT NULL,
    content bytea   NOT NULL,
    PRIMARY KEY (job_no, row_no)
);

-- +goose Down
DROP TABLE millrace.upload_reject, millrace.upload_item, millrace.upload_row, millrace.upload, millrace.upload_owner;
