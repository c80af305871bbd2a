SELECT p.id, p.{stage}_worker AS worker FROM millrace.pipeline_tracking AS p WHERE u.id <> 0 AND p.id = u.id
UNION ALL
SELECT p.id, p.{stage}_worker FROM millrace.pipeline_tracking AS p WHERE u.id = 0 AND p.filename = u.name AND p.shard = u.part
