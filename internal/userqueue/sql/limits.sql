SELECT t.id, coalesce(t."group", '') AS "group", coalesce(t.key, '') AS key FROM millrace.item AS t WHERE t.id = ANY ($2::bigint[])
