-- Parts of a month, with the last sequence in each.
SELECT _part, max(seq) FROM events WHERE _partition_id = @month GROUP BY _part
