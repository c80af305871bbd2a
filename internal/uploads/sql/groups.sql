-- Jobs that may be fed into the queue $1. The queue stays, and followed, until the transaction has ended.
-- A slice that begins in the future is over: the clock was set back.
SELECT u.no, u.id, u.header, u.mapping, u.link_key, u.kind = 'zip', u.claim, u.slice_items,
    -- Before Postgres 17, infinity cannot be subtracted.
    CASE WHEN isfinite(u.slice_at) THEN least(abs(extract(epoch FROM now() - u.slice_at)), 86400) ELSE 86400 END::float8,
    u.service_ms, s.max_attempts
FROM (SELECT max_attempts FROM millrace.stage WHERE name = $1 AND followed FOR KEY SHARE) AS s, millrace.upload AS u
WHERE u.queue_state IN ('QUEUED', 'RUNNING') AND u.received_at IS NOT NULL AND u.deleted_at IS NULL
    AND u.cancelled_at IS NULL AND u.processor = $1 AND u.pending > 0
ORDER BY u.no
