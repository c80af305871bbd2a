-- Items behind the item $4 that have ended keep nothing of their rows.
WITH items AS MATERIALIZED (
    SELECT id FROM millrace.item WHERE stage = $1 AND "group" = $2 AND id > $4
    AND (payload IS NOT NULL OR result IS NOT NULL OR error IS NOT NULL) ORDER BY id LIMIT $3 FOR NO KEY UPDATE
), erased AS (
    UPDATE millrace.item AS t SET payload = NULL, result = NULL, error = NULL FROM items WHERE t.id = items.id
), history AS (
    UPDATE millrace.history AS h SET error = NULL FROM items WHERE h.item_id = items.id AND h.error IS NOT NULL
), changes AS (
    DELETE FROM millrace.payload_change AS c USING items WHERE c.item_id = items.id
)
SELECT count(*)::integer, coalesce(max(id), 0) FROM items
