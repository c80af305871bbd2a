-- How long items have to wait, in milliseconds, because of the starts of their keys.
SELECT g.id, ceil(extract(epoch FROM k.at - now()) * 1000 + $3::double precision * 1000)::bigint
FROM ({limits}) AS g, LATERAL (
    SELECT at FROM millrace.key_start WHERE stage = $1 AND key = g.key ORDER BY at DESC OFFSET $4::integer - 1 LIMIT 1
) AS k
WHERE k.at + $3::double precision * interval '1 second' > now()
