SELECT t.id, t.filename, t.shard, t.priority, t.created_at,
    t.event_ingest_status, 1, 0, 0, '',
    true, {next}, coalesce(t.trace_parent, '')
FROM millrace.pipeline_tracking AS t
WHERE true
