DELETE FROM millrace.item_key AS k USING millrace.item AS t
WHERE t.id = ANY ($2::bigint[]) AND k.stage = $1 AND k.key = t.key AND k.item_id = t.id
