-- Items of uploads among $1 whose rows do not wait for them, and whether that is because the upload is paused. $2 begins the
-- groups of uploads. A row that is still PROCESSING has been left behind by an earlier version, and follows.
SELECT t.id, coalesce(u.queue_state = 'PAUSED', false) FROM millrace.item AS t
LEFT JOIN millrace.upload_item AS i ON i.item_id = t.id AND i.status IN (1, 3)
LEFT JOIN millrace.upload AS u ON u.no = i.job_no AND u.cancelled_at IS NULL AND u.deleted_at IS NULL
WHERE t.id = ANY ($1::bigint[]) AND starts_with(t."group", $2)
    AND coalesce(u.queue_state NOT IN ('QUEUED', 'RUNNING', 'DONE'), true)
