-- Errors by a property.
SELECT
    multiIf(
        @by = 'code', toString(error_code),
        @by = 'category', toString(error_category),
        @by = 'project', toString(project_id),
        @by = 'platform', toString(platform),
        @by = 'hour', formatDateTime(read_at, '%Y-%m-%dT%H:00:00Z', 'UTC'),
        formatDateTime(read_at, '%Y-%m-%dT00:00:00Z', 'UTC')) AS name,
    count() AS errors
FROM item_errors FINAL
WHERE read_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND read_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND (@job = '' OR job_id = @job)
  AND (@project = '' OR project_id = @project)
  AND (@platform = '' OR platform = @platform)
  AND (@code = '' OR error_code = @code)
  AND (@category = '' OR error_category = @category)
GROUP BY name
