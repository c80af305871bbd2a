-- What has become of due times that waited.
UPDATE millrace.job_ledger AS l SET outcome = u.outcome, execution_id = u.execution_id, reason = u.reason, decided_at = now()
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::uuid[], $5::text[]) AS u (job_id, due_at, outcome, execution_id, reason)
WHERE l.job_id = u.job_id AND l.due_at = u.due_at AND l.outcome IN ('buffered', 'backoff')
