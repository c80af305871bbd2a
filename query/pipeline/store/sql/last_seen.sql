-- Articles within a cut by the quarter of an hour in which each was last seen at a stage.
-- An article is the first 64 bits of its hash, big-endian.
SELECT
    stage,
    start,
    groupArray(article) AS articles
FROM
(
    SELECT
        stage,
        reinterpretAsUInt64(reverse(substring(article_hash, 1, 8)))              AS article,
        toUInt32(max(intDiv(toUnixTimestamp64Nano(occurred_at), 900000000000)) * 900) AS start
    FROM events
    WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
      AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
      AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
      AND (@source = '' OR source_name = @source)
    GROUP BY stage, article
)
GROUP BY stage, start
