INSERT INTO millrace.act (subject, move, caller, request_key, filter, arguments, matched, more, state, ended_at)
SELECT $1, $2, $3, nullif($4, ''), $5, $6, $7::integer, $8,
    CASE WHEN $7 > 0 THEN 'running' ELSE 'finished' END, CASE WHEN $7 > 0 THEN NULL ELSE clock_timestamp() END
ON CONFLICT (caller, request_key) WHERE request_key IS NOT NULL DO NOTHING
RETURNING id
