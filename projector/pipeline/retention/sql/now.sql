-- The clock of the database.
SELECT now64(3, 'UTC') AS at
