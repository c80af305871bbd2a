UPDATE millrace.batch AS b SET ok = u.ok, error = u.error, retrying = u.retrying, errors = u.errors::jsonb, changed_at = now()
FROM unnest($1::text[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::text[])
    AS u (job, index, ok, error, retrying, errors)
WHERE b.job_id = u.job AND b.batch_index = u.index
