-- The items $1 have outlived their leases: those that follow get one that is twice as long. Where it would be far longer than
-- items take, their workers have died: the next ones would be waited for as long. least passes over the null of an upload
-- of which no item has ended.
UPDATE millrace.upload AS u
SET lease_ms = greatest(u.lease_ms, least(2000 * least(l.lease, 86400), 30 * nullif(u.service_ms, 0)))
FROM (
    SELECT i.job_no, max(coalesce(s.measured_lease_s, s.lease_s, 0)) AS lease
    FROM millrace.upload_item AS i JOIN millrace.item AS t ON t.id = i.item_id JOIN millrace.stage AS s ON s.stage = t.stage
    WHERE i.item_id = ANY ($1::bigint[]) GROUP BY i.job_no
) AS l WHERE u.no = l.job_no
