SELECT t.id, t.filename, t.shard, t.priority, t.created_at,
    t.{stage}_status, t.{stage}_generation, t.{stage}_attempts, coalesce(t.{stage}_allowed, 0), coalesce(t.{stage}_worker, ''),
    t.{prev}_status = 'done', {next}, coalesce(t.trace_parent, '')
FROM millrace.pipeline_tracking AS t
WHERE true
