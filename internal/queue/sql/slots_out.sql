INSERT INTO millrace.slot (stage, item_id, "group")
SELECT $1::smallint, g.id, nullif(g."group", '') FROM ({limits}) AS g
ON CONFLICT DO NOTHING
