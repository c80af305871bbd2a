-- What an outcome has beside the columns of item.sql.
SELECT content, error_details
FROM item_outcomes
WHERE job_id = @job AND batch_index = @batch AND position = @position AND version = @version
LIMIT 1
SETTINGS max_threads = 1
