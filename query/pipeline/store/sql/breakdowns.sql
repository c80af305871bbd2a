-- Events of a moment by what they carry, the largest of each kind. An event
-- counts once for each of its topics. Beside each is what there is of its kind.
WITH taken AS
(
    SELECT stage, source_name, model_version, channel, topics
    FROM events
    WHERE occurred_at >= fromUnixTimestamp64Nano(toInt64(@from), 'UTC')
      AND occurred_at < fromUnixTimestamp64Nano(toInt64(@to), 'UTC')
      AND seq <= toUInt64(@seq) AND (@groups = 1 OR seq <= @upto[1 + reinterpretAsUInt8(article_hash) % @groups])
      AND (@source = '' OR source_name = @source)
      AND NOT (@skip_reclassified AND is_reclassification)
)
SELECT
    kind,
    name,
    counted,
    count() OVER (PARTITION BY kind)      AS names,
    sum(counted) OVER (PARTITION BY kind) AS total
FROM
(
    SELECT 'source' AS kind, toString(source_name) AS name, count() AS counted
    FROM taken WHERE stage = @crawl GROUP BY name
    UNION ALL
    SELECT 'version' AS kind, toString(model_version) AS name, count() AS counted
    FROM taken WHERE stage = @classify AND model_version != '' GROUP BY name
    UNION ALL
    SELECT 'topic' AS kind, toString(arrayJoin(arrayDistinct(topics))) AS name, count() AS counted
    FROM taken WHERE stage = @classify GROUP BY name
    UNION ALL
    SELECT 'channel' AS kind, toString(channel) AS name, count() AS counted
    FROM taken WHERE stage = @publish AND channel != '' GROUP BY name
)
ORDER BY kind, counted DESC, name
LIMIT @limit BY kind
