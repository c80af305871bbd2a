-- How the items $1 have ended, which stay so until the transaction ends. Those that are gone are not among them.
SELECT id, status::text, cancelled, attempts, result::text, coalesce(error, '') FROM millrace.item
WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE
