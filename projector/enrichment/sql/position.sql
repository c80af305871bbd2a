-- The last sequence of which rows are there; of those whose analyser was asked, if need be.
SELECT max(seq) FROM item_analyses WHERE asked >= ?
