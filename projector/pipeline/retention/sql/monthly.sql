-- Sums up the days of a retirement.
INSERT INTO events_monthly
(
    period, stage, source_name, dimension, value, upto, events, reclassifications, duplicates, backfilled,
    articles, quality_events, quality_sum, quality_values, quality_counts
)
SELECT
    toStartOfMonth(period), stage, source_name, dimension, value, upto, sum(events), sum(reclassifications), sum(duplicates), sum(backfilled),
    uniqCombined64MergeState(articles), sum(quality_events), sum(quality_sum),
    tupleElement(sumMap(quality_values, quality_counts), 1), tupleElement(sumMap(quality_values, quality_counts), 2)
FROM events_daily FINAL
WHERE period >= toDate(@from) AND period < toDate(@to) AND upto = @upto
GROUP BY toStartOfMonth(period), stage, source_name, dimension, value, upto
