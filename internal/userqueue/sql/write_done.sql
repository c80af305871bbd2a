UPDATE millrace.item SET status = 'done', updated_at = now() WHERE id = ANY ($1::bigint[])
