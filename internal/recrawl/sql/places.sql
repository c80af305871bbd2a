-- The rows that items are about by their payloads.
SELECT i.id, e.id FROM millrace.item AS i
JOIN millrace.batch_error AS e ON e.job_id = i.payload->>'job_id' AND e.batch_index::text = i.payload->>'batch_index'
    AND e.position::text = i.payload->>'position'
WHERE i.id = ANY ($1::bigint[])
