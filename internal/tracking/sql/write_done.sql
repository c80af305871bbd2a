UPDATE millrace.pipeline_tracking SET {stage}_status = 'done', updated_at = now() WHERE id = ANY ($1::bigint[])
