-- +goose Up

ALTER TABLE millrace.item ADD COLUMN trace_parent text;

COMMENT ON COLUMN millrace.item.trace_parent IS 'The span that added the item, as the header traceparent of W3C Trace Context says it; null where nobody traces the item.';

-- +goose Down

ALTER TABLE millrace.item DROP COLUMN trace_parent;
