INSERT INTO millrace.key_start (stage, at, key)
SELECT $1::smallint, now(), g.key FROM ({limits}) AS g WHERE g.key <> ''
