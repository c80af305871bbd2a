-- +goose Up

-- A message that was read, and when the stream received it: a stream that has another one at its
-- sequence was made anew, however long it is.
ALTER TABLE millrace.work_position ADD COLUMN known_seq bigint, ADD COLUMN known_at timestamptz;

-- +goose Down

ALTER TABLE millrace.work_position DROP COLUMN known_seq, DROP COLUMN known_at;
