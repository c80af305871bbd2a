INSERT INTO millrace.run_change (item_id, status, error)
SELECT u.id, u.status, i.error FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS u (id, status, place)
JOIN millrace.item AS i ON i.id = u.id
WHERE EXISTS (SELECT FROM millrace.executions AS e WHERE e.item_id = u.id)
ORDER BY u.place
