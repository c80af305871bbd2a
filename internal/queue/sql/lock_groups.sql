-- One at a time puts items of a group out, or finds that one is in.
SELECT pg_advisory_xact_lock(h) FROM (
    SELECT DISTINCT hashtextextended(g."group", $1::bigint) AS h
    FROM ({limits}) AS g WHERE g."group" <> ''
    ORDER BY h
) AS hashes
