-- How many errors the filters select, and how many items the others than code and category.
SELECT
    (
        SELECT count()
        FROM item_errors FINAL
        WHERE read_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
          AND read_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
          AND (@job = '' OR job_id = @job)
          AND (@project = '' OR project_id = @project)
          AND (@platform = '' OR platform = @platform)
          AND (@code = '' OR error_code = @code)
          AND (@category = '' OR error_category = @category)
    ) AS errors,
    (
        SELECT count()
        FROM item_outcomes
        WHERE read_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
          AND read_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
          AND (@job = '' OR job_id = @job)
          AND (@project = '' OR project_id = @project)
          AND (@platform = '' OR platform = @platform)
          AND version = 0
    ) AS items
