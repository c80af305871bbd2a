-- Mean and median (as PERCENTILE_CONT has it) of the quality scores of a
-- moment. The median takes one article of @sample: hashes are uniform. Scores
-- beyond @max_score, which earlier releases stored, count as absent.
WITH if(abs(quality_score) <= @max_score, quality_score, NULL) AS score
SELECT
    avg(score) AS mean,
    quantileExactInclusiveOrNullIf(0.5)(score, score IS NOT NULL AND reinterpretAsUInt32(article_hash) % toUInt32(@sample) = 0) AS median
FROM events
WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
  AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
  AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
  AND (@source = '' OR source_name = @source)
  AND NOT (@skip_reclassified AND is_reclassification)
  AND stage = @classify
