-- +goose Up

-- Acts are about whatever a system has its rows moved by: the subject says what the filter
-- selects and what the ids of members name.
ALTER TABLE millrace.act ADD COLUMN subject text NOT NULL DEFAULT 'items', ADD COLUMN arguments json,
    DROP CONSTRAINT act_move_check;
UPDATE millrace.act SET subject = 'crawl_errors', filter = filter -> 'crawl_errors'
WHERE filter -> 'crawl_errors' IS NOT NULL;
ALTER TABLE millrace.act ALTER COLUMN subject DROP DEFAULT;

ALTER TABLE millrace.act_batch RENAME COLUMN stage TO part;
ALTER TABLE millrace.act_batch RENAME COLUMN items TO members;
ALTER TABLE millrace.act_batch ALTER COLUMN members TYPE text[] USING members::text[];

ALTER TABLE millrace.act_member RENAME COLUMN stage TO part;
ALTER TABLE millrace.act_member RENAME COLUMN item_id TO member;
ALTER TABLE millrace.act_member ALTER COLUMN member TYPE text USING member::text;

-- +goose Down

DELETE FROM millrace.act WHERE subject NOT IN ('items', 'crawl_errors');

UPDATE millrace.act_member AS m SET part = -1 FROM millrace.act AS a
WHERE a.id = m.act_id AND a.subject = 'crawl_errors';
ALTER TABLE millrace.act_member ALTER COLUMN member TYPE bigint USING member::bigint;
ALTER TABLE millrace.act_member RENAME COLUMN member TO item_id;
ALTER TABLE millrace.act_member RENAME COLUMN part TO stage;

UPDATE millrace.act_batch AS b SET part = -1 FROM millrace.act AS a
WHERE a.id = b.act_id AND a.subject = 'crawl_errors';
ALTER TABLE millrace.act_batch ALTER COLUMN members TYPE bigint[] USING members::bigint[];
ALTER TABLE millrace.act_batch RENAME COLUMN members TO items;
ALTER TABLE millrace.act_batch RENAME COLUMN part TO stage;

UPDATE millrace.act SET filter = json_build_object('crawl_errors', filter) WHERE subject = 'crawl_errors';
ALTER TABLE millrace.act DROP COLUMN subject, DROP COLUMN arguments,
    ADD CONSTRAINT act_move_check CHECK (move IN ('retry', 'cancel'));
