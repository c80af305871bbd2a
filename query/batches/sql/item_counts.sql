-- Items by a property that items have whatever became of them.
SELECT
    multiIf(
        @by = 'project', toString(project_id),
        @by = 'platform', toString(platform),
        @by = 'hour', formatDateTime(read_at, '%Y-%m-%dT%H:00:00Z', 'UTC'),
        @by = 'day', formatDateTime(read_at, '%Y-%m-%dT00:00:00Z', 'UTC'),
        '') AS name,
    count() AS items
FROM item_outcomes
WHERE read_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND read_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND (@job = '' OR job_id = @job)
  AND (@project = '' OR project_id = @project)
  AND (@platform = '' OR platform = @platform)
  AND version = 0
GROUP BY name
