-- +goose Up

ALTER TABLE millrace.stage ADD COLUMN made_by text;
COMMENT ON COLUMN millrace.stage.made_by IS 'A digest of who made the queue with a token; null: nobody in particular.';

-- +goose Down

ALTER TABLE millrace.stage DROP COLUMN made_by;
