-- Items that have ended, or are gone, and whose rows are still PROCESSING: a process of an earlier version has moved them.
-- Rows and items change in one transaction, so one statement sees no others.
SELECT i.item_id FROM millrace.upload AS u, LATERAL (
    SELECT item_id FROM millrace.upload_item WHERE job_no = u.no AND status = 1 AND item_id IS NOT NULL
) AS i LEFT JOIN millrace.item AS t ON t.id = i.item_id
WHERE u.processing > 0 AND u.received_at IS NOT NULL AND (t.id IS NULL OR t.status IN ('done', 'failed'))
ORDER BY i.item_id
