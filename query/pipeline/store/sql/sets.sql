SELECT
    stage,
    events,
    article_set
FROM funnel FINAL
WHERE width = @width
  AND source = @source
  AND bucket >= toDateTime(@from, 'UTC')
  AND bucket < toDateTime(@to, 'UTC')
SETTINGS do_not_merge_across_partitions_select_final = 1
