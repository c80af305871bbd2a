-- Locks the jobs of items, in the order of their numbers. What changes their rows comes behind it.
SELECT FROM millrace.upload WHERE no = ANY (ARRAY(
    SELECT job_no FROM millrace.upload_item WHERE item_id = ANY ($1::bigint[])
)) ORDER BY no FOR NO KEY UPDATE
