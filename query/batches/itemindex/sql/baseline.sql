-- Which table it is, how often its rows were changed, whether they are being changed, and how
-- many there are.
SELECT
    (SELECT toString(any(uuid)) FROM system.tables WHERE database = currentDatabase() AND name = 'item_outcomes') AS id,
    (
        SELECT concat(toString(count()), ' ', toString(max(create_time)))
        FROM system.mutations
        WHERE database = currentDatabase() AND table = 'item_outcomes'
    ) AS changes,
    (
        SELECT countIf(NOT is_done)
        FROM system.mutations
        WHERE database = currentDatabase() AND table = 'item_outcomes'
    ) AS changing,
    (SELECT count() FROM item_outcomes) AS outcomes
