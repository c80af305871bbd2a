-- Errors by code and by a message in which numbers, ids and addresses are alike, the largest
-- groups first. The caller puts together what is still alike.
SELECT
    toString(error_code)                         AS code,
    toString(any(error_category))                AS category,
    count()                                      AS errors,
    min(created_at)                              AS first_seen,
    max(created_at)                              AS last_seen,
    argMax(job_id, created_at)                   AS job,
    argMax(batch_index, created_at)              AS batch,
    argMax(position, created_at)                 AS place,
    argMax(version, created_at)                  AS attempts,
    toString(argMax(project_id, created_at))     AS project,
    toString(argMax(platform, created_at))       AS platform_name,
    argMax(content_id, created_at)               AS content,
    argMax(error_message, created_at)            AS message,
    argMax(permalink, created_at)                AS link,
    argMax(read_at, created_at)                  AS read
FROM item_errors FINAL
WHERE read_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND read_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND (@job = '' OR job_id = @job)
  AND (@project = '' OR project_id = @project)
  AND (@platform = '' OR platform = @platform)
  AND (@code = '' OR error_code = @code)
  AND (@category = '' OR error_category = @category)
GROUP BY
    error_code,
    replaceRegexpAll(
        replaceRegexpAll(
            replaceRegexpAll(error_message, '[A-Za-z][A-Za-z0-9+.-]*://[^\\s"]+', '‹url›'),
            '\\b[0-9a-fA-F]{8,}(-[0-9a-fA-F]{4,})*\\b', '‹id›'),
        '[0-9]+', '‹n›')
ORDER BY errors DESC, code, message
LIMIT @limit
