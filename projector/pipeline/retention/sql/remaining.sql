-- Events of a month and a range of sequences.
SELECT count()
FROM events
WHERE occurred_at >= @from AND occurred_at < @to AND seq > @after AND seq <= @upto
