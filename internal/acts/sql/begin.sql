INSERT INTO millrace.act (move, caller, request_key, filter, matched, more, state, ended_at)
SELECT $1, $2, nullif($3, ''), $4, $5::integer, $6,
    CASE WHEN $5 > 0 THEN 'running' ELSE 'finished' END, CASE WHEN $5 > 0 THEN NULL ELSE clock_timestamp() END
ON CONFLICT (caller, request_key) WHERE request_key IS NOT NULL DO NOTHING
RETURNING id
