-- The source that has sent events whose name is nearest to one: the name itself
-- where there is such a source.
SELECT source
FROM
(
    SELECT DISTINCT source
    FROM funnel
    WHERE source != ''
)
ORDER BY source = @source DESC, editDistance(lower(source), lower(@source)), source
LIMIT 1
