UPDATE millrace.pipeline_tracking
SET {stage}_status = 'started', {stage}_generation = {stage}_generation + 1, {stage}_attempts = {stage}_attempts + 1,
    {stage}_worker = nullif($2, ''), {stage}_taken_at = now(), updated_at = now()
WHERE id = ANY ($1::bigint[])
