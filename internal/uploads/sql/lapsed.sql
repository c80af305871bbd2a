-- The items $1 have outlived their leases: those that follow get one that is twice as long.
UPDATE millrace.upload AS u SET lease_ms = greatest(u.lease_ms, 2000 * least(l.lease, 86400))
FROM (
    SELECT i.job_no, max(coalesce(s.measured_lease_s, s.lease_s, 0)) AS lease
    FROM millrace.upload_item AS i JOIN millrace.item AS t ON t.id = i.item_id JOIN millrace.stage AS s ON s.stage = t.stage
    WHERE i.item_id = ANY ($1::bigint[]) GROUP BY i.job_no
) AS l WHERE u.no = l.job_no
