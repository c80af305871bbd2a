-- Drops finished items behind the entry ($3, $4), the oldest first, with all that is known of
-- them. An entry whose item has moved since is dropped alone. Arrays have Postgres go by
-- indexes, whatever it knows of the tables.
WITH q AS MATERIALIZED (
    SELECT s.stage, s.retention_s, greatest((
        SELECT coalesce(sum(n), 0) FROM (
            SELECT kind, n FROM millrace.tally UNION ALL SELECT kind, n FROM millrace.tally_delta
        ) AS t WHERE kind IN (s.stage::integer * 10 + 2, s.stage::integer * 10 + 3)
    ) - s.max_items, 0) AS surplus
    FROM millrace.stage AS s WHERE s.stage = $1
), entries AS MATERIALIZED (
    SELECT f.ctid, f.at, f.item_id FROM (
        SELECT f.ctid, f.at, f.item_id, row_number() OVER (ORDER BY f.at, f.item_id) AS place FROM (
            SELECT ctid, at, item_id FROM millrace.finished WHERE stage = $1 AND (at, item_id) > ($3, $4)
            ORDER BY at, item_id LIMIT $2
        ) AS f
    ) AS f, q
    WHERE f.at < now() - q.retention_s * interval '1 second' OR f.place <= q.surplus
), locked AS MATERIALIZED (
    SELECT t.id FROM entries AS e, LATERAL (
        SELECT t.id FROM millrace.item AS t
        WHERE t.id = e.item_id AND t.stage = $1 AND t.status IN ('done', 'failed') AND t.updated_at = e.at
        FOR UPDATE
    ) AS t
), gone AS (
    DELETE FROM millrace.item WHERE id = ANY (ARRAY(SELECT id FROM locked)) RETURNING id, status, cancelled
), seen AS (
    DELETE FROM millrace.finished WHERE ctid = ANY (ARRAY(SELECT ctid FROM entries)) RETURNING 1
), told AS (
    DELETE FROM millrace.history WHERE item_id = ANY (ARRAY(SELECT id FROM gone))
), changed AS (
    DELETE FROM millrace.payload_change WHERE item_id = ANY (ARRAY(SELECT id FROM gone))
), dead AS (
    DELETE FROM millrace.failed WHERE stage = $1 AND item_id = ANY (ARRAY(SELECT id FROM gone)) RETURNING dead
), counted AS (
    INSERT INTO millrace.tally_delta (kind, key, n)
    SELECT $1::integer * 10 + u.what, 0, -u.n FROM (
        SELECT 2 AS what, count(*) AS n FROM gone WHERE status = 'done'
        UNION ALL SELECT 3, count(*) FROM gone WHERE status = 'failed'
        UNION ALL SELECT 6, count(*) FROM dead WHERE dead
        UNION ALL SELECT 7, count(*) FROM gone WHERE cancelled
    ) AS u WHERE u.n > 0
)
SELECT (SELECT count(*) FROM seen), (SELECT count(*) FROM gone), coalesce(max(e.at), $3), coalesce(max(e.item_id), $4)
FROM (SELECT at, item_id FROM entries ORDER BY at DESC, item_id DESC LIMIT 1) AS e
