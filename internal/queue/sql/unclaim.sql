DELETE FROM millrace.claim WHERE stage = $1 AND item_id = ANY ($2::bigint[])
