-- Items of uploads that are out, and have no row. One that was never brought back has one, so they are few that are looked at.
SELECT t.stage, t.id FROM millrace.stage AS s, LATERAL (
    SELECT item_id FROM millrace.ready WHERE stage = s.stage AND generation > 1
    UNION ALL SELECT item_id FROM millrace.delayed WHERE stage = s.stage AND generation > 1
) AS out JOIN millrace.item AS t ON t.id = out.item_id
WHERE s.followed AND s.stage >= $1 AND starts_with(t."group", $2)
    AND NOT EXISTS (SELECT FROM millrace.upload_item WHERE item_id = t.id AND status = 1)
ORDER BY t.stage, t.id LIMIT $3
