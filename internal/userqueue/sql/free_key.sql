-- The keys are found one by one, by index, however many items are live and whatever the
-- statistics say.
DELETE FROM millrace.item_key
WHERE stage = $1 AND key = ANY (ARRAY(SELECT key FROM millrace.item WHERE id = ANY ($2::bigint[])))
    AND item_id = ANY ($2::bigint[])
