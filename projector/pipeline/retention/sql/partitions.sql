-- Months of the events table and their rows.
SELECT toUInt32(partition) AS month, sum(rows) AS counted
FROM @parts
WHERE active AND database = currentDatabase() AND table = @table
GROUP BY month
ORDER BY month
