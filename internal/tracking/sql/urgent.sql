SELECT r.item_id, r.generation
FROM millrace.stage AS s
JOIN millrace.ready AS r ON r.stage = s.stage
WHERE s.stage = $1 AND r.stage = $1 AND r.priority > 0 AND NOT s.paused AND (s.concurrency IS NULL OR s.concurrency > (
    SELECT coalesce(sum(t.n), 0) FROM (SELECT kind, n FROM millrace.tally UNION ALL SELECT kind, n FROM millrace.tally_delta) AS t
    WHERE t.kind = $1 * 10 + 1
))
ORDER BY r.priority DESC, r.item_id
LIMIT $2
