-- A page of the errors that count at present, those of the batches read last first. An empty
-- parameter does not filter. Errors of one time are in the order of their position and of a
-- hash of their batch, which is their place.
SELECT
    job_id,
    batch_index,
    position,
    version,
    toString(project_id)     AS project,
    toString(platform)       AS platform_name,
    content_id,
    toString(error_code)     AS code,
    toString(error_category) AS category,
    error_message,
    error_details,
    permalink,
    read_at,
    created_at,
    bitOr(bitShiftLeft(toUInt64(position), 32), bitAnd(cityHash64(job_id, batch_index), 4294967295)) AS place
FROM item_errors FINAL
WHERE read_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND read_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND (@job = '' OR job_id = @job)
  AND (@project = '' OR project_id = @project)
  AND (@platform = '' OR platform = @platform)
  AND (@code = '' OR error_code = @code)
  AND (@category = '' OR error_category = @category)
  AND read_at <= fromUnixTimestamp64Nano(toInt64(@at), 'UTC')
  AND (@first OR read_at < fromUnixTimestamp64Nano(toInt64(@at), 'UTC') OR place > @place)
ORDER BY read_at DESC, place
LIMIT @limit
