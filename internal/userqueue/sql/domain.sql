-- An error of a domain: the delay between its items doubles, at most once in itself, and begins anew after $6 quiet
-- seconds, or when the clock was set back by more than 10 seconds: what is in the future then would last too long.
INSERT INTO millrace.error_domain AS d (stage, domain, delay_ms, changed_at, next_at)
VALUES ($1, $2, $4, now(), now() + $3 * interval '1 second')
ON CONFLICT (stage, domain) DO UPDATE SET
    delay_ms = CASE WHEN d.changed_at NOT BETWEEN now() - $6 * interval '1 second' AND now() + interval '10 seconds' THEN excluded.delay_ms
        WHEN d.changed_at > now() - d.delay_ms * interval '1 millisecond' THEN d.delay_ms ELSE least(2 * d.delay_ms, $5) END,
    changed_at = CASE WHEN d.changed_at BETWEEN now() - d.delay_ms * interval '1 millisecond' AND now() + interval '10 seconds'
        THEN d.changed_at ELSE now() END,
    next_at = CASE WHEN d.changed_at > now() + interval '10 seconds' THEN excluded.next_at
        ELSE greatest(d.next_at + d.delay_ms * interval '1 millisecond', excluded.next_at) END
RETURNING greatest(extract(epoch FROM d.next_at - now()), 0)::float8
