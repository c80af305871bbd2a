-- +goose Up

-- Batches are also announced by notifications of buckets.
ALTER TABLE millrace.batch DROP CONSTRAINT batch_format_check,
    ADD CONSTRAINT batch_format_check CHECK (format IN ('event', 'legacy', 'inline', 'notification'));
COMMENT ON COLUMN millrace.batch.format IS 'How it was announced: event (data.collected), legacy (data_ref), inline, or notification (of a bucket of S3).';

-- +goose Down

UPDATE millrace.batch SET format = 'event' WHERE format = 'notification';
ALTER TABLE millrace.batch DROP CONSTRAINT batch_format_check,
    ADD CONSTRAINT batch_format_check CHECK (format IN ('event', 'legacy', 'inline'));
COMMENT ON COLUMN millrace.batch.format IS 'How it was announced: event (data.collected), legacy (data_ref) or inline.';
