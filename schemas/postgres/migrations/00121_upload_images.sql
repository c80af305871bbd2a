-- +goose Up

-- Zips of images. image_column is the column of the metadata that names images, if the mapping said so when the first
-- rows were persisted.
ALTER TABLE millrace.upload DROP CONSTRAINT upload_kind_check;
ALTER TABLE millrace.upload
    ADD CONSTRAINT upload_kind_check CHECK (kind IN ('', 'csv', 'ndjson', 'xlsx', 'zip')),
    ADD COLUMN image_column text NOT NULL DEFAULT '';

-- Where the image of a row is in the file of its job. No table has a comment: logins of people read none.
CREATE TABLE millrace.upload_image (
    job_no   integer NOT NULL,
    row_no   integer NOT NULL,
    name     text    NOT NULL,
    type     text    NOT NULL,
    size     bigint  NOT NULL,
    place    bigint  NOT NULL,
    packed   bigint  NOT NULL,
    deflated boolean NOT NULL,
    crc      bigint  NOT NULL,
    PRIMARY KEY (job_no, row_no)
);

-- +goose Down
DROP TABLE millrace.upload_image;
UPDATE millrace.upload SET kind = '', deleted_at = coalesce(deleted_at, now()) WHERE kind = 'zip';
ALTER TABLE millrace.upload DROP CONSTRAINT upload_kind_check;
ALTER TABLE millrace.upload
    DROP COLUMN image_column,
    ADD CONSTRAINT upload_kind_check CHECK (kind IN ('', 'csv', 'ndjson', 'xlsx'));
