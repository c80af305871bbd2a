-- Rows are locked in the order in which all others lock them.
WITH ahead AS (
    SELECT item_id, stage FROM millrace.{table}
    WHERE given_at > now() + $1::interval AND {until} IS NOT NULL
    ORDER BY item_id FOR UPDATE
)
UPDATE millrace.{table} AS c SET {until} = now() + (c.{until} - c.given_at), given_at = now()
FROM ahead AS a
WHERE c.item_id = a.item_id AND c.stage = a.stage
