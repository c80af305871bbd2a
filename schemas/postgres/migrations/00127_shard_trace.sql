-- +goose Up

ALTER TABLE millrace.pipeline_tracking ADD COLUMN trace_parent text;

COMMENT ON COLUMN millrace.pipeline_tracking.trace_parent IS 'The span that registered the shard, as the header traceparent of W3C Trace Context says it; null where nobody traces the shard.';

-- +goose Down

ALTER TABLE millrace.pipeline_tracking DROP COLUMN trace_parent;
