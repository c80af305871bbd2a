-- How many of a group's events up to a sequence are stored, those that have been retired
-- among them. An event that is in both tables, or twice in one, counts once.
SELECT groupBitmap(seq)
FROM
(
    SELECT seq
    FROM events
    WHERE seq <= @upto AND (@of = 1 OR reinterpretAsUInt8(substring(article_hash, 1, 1)) % @of = @number)
    UNION ALL
    SELECT seq
    FROM retired_identities
    WHERE seq <= @upto AND slot % @of = @number
)
