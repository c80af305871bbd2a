-- Items among $1 that are about an item of a batch which is no error any more, or is tried again with another item.
SELECT i.id FROM millrace.item AS i
LEFT JOIN millrace.batch_error AS e ON e.job_id = i.payload->>'job_id' AND e.batch_index::text = i.payload->>'batch_index'
    AND e.position::text = i.payload->>'position'
WHERE i.id = ANY ($1::bigint[]) AND i.payload->>'job_id' IS NOT NULL AND i.payload->>'batch_index' IS NOT NULL
    AND i.payload->>'position' IS NOT NULL AND (e.id IS NULL OR e.state = 'queued' AND e.item_id IS DISTINCT FROM i.id)
