UPDATE millrace.pipeline_tracking AS t
SET event_ingest_status = u.status::millrace.stage_status, updated_at = now()
FROM unnest($1::bigint[], $2::text[]) AS u (id, status)
WHERE t.id = u.id
