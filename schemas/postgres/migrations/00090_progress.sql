-- +goose Up

ALTER TABLE millrace.claim ADD COLUMN progress text, ADD COLUMN progress_at timestamptz;
COMMENT ON COLUMN millrace.claim.progress IS 'What the worker has last said that it is at; null: nothing.';
COMMENT ON COLUMN millrace.claim.progress_at IS 'When it said so.';

-- +goose Down

ALTER TABLE millrace.claim DROP COLUMN progress, DROP COLUMN progress_at;
