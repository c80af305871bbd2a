-- The last month whose events have been summed up and removed, 0: none.
SELECT max(month) FROM retired
