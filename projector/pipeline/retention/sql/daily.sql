-- Sums up days of a retirement. Repeated, it writes the same rows again; on a
-- table that has lost rows since, it writes rows that have seen fewer events,
-- which those of the first time replace.
INSERT INTO events_daily
(
    period, stage, source_name, dimension, value, upto, events, reclassifications, duplicates, backfilled,
    articles, quality_events, quality_sum, quality_values, quality_counts
)
SELECT
    toDate(occurred_at), stage, source_name, d.1, d.2, toUInt64(@upto), count(), countIf(is_reclassification), countIf(is_duplicate), countIf(backfilled),
    uniqCombined64State(article_hash), count(quality_score), sum(ifNull(quality_score, 0)),
    tupleElement(sumMapIf([round(ifNull(quality_score, 0), 1)], [toUInt64(1)], isNotNull(quality_score)), 1),
    tupleElement(sumMapIf([round(ifNull(quality_score, 0), 1)], [toUInt64(1)], isNotNull(quality_score)), 2)
FROM events
ARRAY JOIN arrayConcat(
    [('', ''), ('service', toString(service_name)), ('model_version', toString(model_version)),
     ('content_type', toString(content_type)), ('channel', toString(channel))],
    arrayMap(t -> ('topic', toString(t)), arrayDistinct(topics))) AS d
WHERE occurred_at >= @from AND occurred_at < @to AND seq > @after AND seq <= @upto AND (d.1 = '' OR d.2 != '')
GROUP BY toDate(occurred_at), stage, source_name, d.1, d.2
