-- Some slack is for a clock that is set back a little, which nobody notices.
UPDATE millrace.batch_error SET due_at = now() WHERE id IN (
    SELECT e.id FROM millrace.batch_error AS e
    JOIN unnest($2::float8[]) WITH ORDINALITY AS w (wait, attempt) ON w.attempt = e.tries + 1
    WHERE e.state = 'waiting' AND e.queue = $1 AND e.due_at > now() + (w.wait + 10) * interval '1 second'
    FOR UPDATE OF e SKIP LOCKED
)
