WITH unparked AS (
    DELETE FROM millrace.parked WHERE stage = $1 AND item_id = ANY ($2::bigint[])
)
DELETE FROM millrace.slot WHERE stage = $1 AND item_id = ANY ($2::bigint[])
