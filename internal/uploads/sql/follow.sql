-- Rows follow their items. Their jobs are locked. A row that has gone on without its item stays as it is, and so does
-- one whose item comes back after the job was cancelled.
WITH said AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::integer[], $4::float8[], $5::text[], $6::text[], $7::boolean[])
        AS s (item, status, attempts, wait, result, error, worked)
), jobs AS MATERIALIZED (
    SELECT no, cancelled_at IS NOT NULL OR deleted_at IS NOT NULL AS ended, {next} AS at,
        queue_state = 'RUNNING' AND read_all AS read, pending + processing AS left FROM millrace.upload
    WHERE no = ANY (ARRAY(SELECT job_no FROM millrace.upload_item WHERE item_id = ANY ($1::bigint[])))
), moves AS MATERIALIZED (
    SELECT i.job_no, i.row_no, i.version, i.status AS was, i.ctid AS place, jobs.at, s.*
    FROM said AS s, LATERAL (SELECT *, ctid FROM millrace.upload_item WHERE item_id = s.item) AS i, jobs
    WHERE jobs.no = i.job_no AND CASE s.status WHEN 1 THEN i.status = 3 AND NOT jobs.ended ELSE i.status IN (1, 3) END
), moved AS (
    UPDATE millrace.upload_item AS i SET status = m.status, attempts = CASE WHEN m.attempts > 0 THEN least(m.attempts, 32767)
            ELSE i.attempts END, version = i.version + 1, updated_at = m.at,
        due_at = CASE WHEN m.wait > 0 THEN now() + m.wait * interval '1 second' END,
        item_id = CASE WHEN m.status IN (1, 3) THEN m.item END
    FROM moves AS m WHERE i.ctid = m.place
), results AS (
    INSERT INTO millrace.upload_result AS r (job_no, row_no, result, error)
    SELECT job_no, row_no, result::json, error FROM moves
    WHERE status > 1 AND (result IS NOT NULL OR error IS NOT NULL OR version > 2)
    ON CONFLICT (job_no, row_no) DO UPDATE SET result = excluded.result, error = excluded.error
), service AS (
    SELECT m.job_no, avg(extract(epoch FROM clock_timestamp() - t.taken_at) * 1000)::real AS ms, count(*) AS n,
        max(extract(epoch FROM clock_timestamp() - t.taken_at) * 1000)::real AS longest
    FROM moves AS m, LATERAL (SELECT taken_at FROM millrace.item WHERE id = m.item) AS t
    WHERE m.worked AND t.taken_at IS NOT NULL GROUP BY m.job_no
), sums AS (
    SELECT job_no,
        (count(*) FILTER (WHERE status = 0) - count(*) FILTER (WHERE was = 0))::integer AS pending,
        (count(*) FILTER (WHERE status = 1) - count(*) FILTER (WHERE was = 1))::integer AS processing,
        (count(*) FILTER (WHERE status = 2) - count(*) FILTER (WHERE was = 2))::integer AS done,
        (count(*) FILTER (WHERE status = 3) - count(*) FILTER (WHERE was = 3))::integer AS error,
        (count(*) FILTER (WHERE status = 4) - count(*) FILTER (WHERE was = 4))::integer AS not_found,
        (count(*) FILTER (WHERE status = 5) - count(*) FILTER (WHERE was = 5))::integer AS skipped,
        (count(*) FILTER (WHERE was = 1))::integer AS ended, bool_or(status = 1) AS back
    FROM moves GROUP BY job_no
), changes AS ( -- over: all rows are persisted, and this ends the last item
    SELECT s.*, jobs.at, jobs.read AND NOT jobs.ended AND jobs.left + s.pending + s.processing = 0 AS over
    FROM sums AS s JOIN jobs ON jobs.no = s.job_no
)
UPDATE millrace.upload AS u SET pending = u.pending + s.pending, processing = u.processing + s.processing,
    done = u.done + s.done, error = u.error + s.error, not_found = u.not_found + s.not_found,
    skipped = u.skipped + s.skipped, slice_items = u.slice_items + s.ended, changed_at = s.at,
    last_heartbeat = clock_timestamp(),
    -- A moving average, which one that is far longer replaces.
    service_ms = CASE WHEN v.ms IS NULL THEN u.service_ms WHEN u.service_ms = 0 OR v.ms > 5 * u.service_ms THEN v.ms
        ELSE u.service_ms + (1 - 0.8 ^ least(v.n, 50)) * (v.ms - u.service_ms) END,
    lease_ms = CASE WHEN v.ms IS NULL THEN u.lease_ms
        ELSE greatest(u.lease_ms * 0.97 ^ least(v.n, 500), 1.5 * least(v.longest, 86400000)) END,
    queue_state = CASE WHEN s.over THEN 'DONE' WHEN s.back AND u.queue_state = 'DONE' THEN 'RUNNING' ELSE u.queue_state END,
    finished_at = CASE WHEN s.over THEN clock_timestamp() WHEN s.back THEN NULL ELSE u.finished_at END,
    last_error = CASE WHEN s.over THEN NULL ELSE u.last_error END,
    items_sec = CASE WHEN s.over THEN {rate} ELSE u.items_sec END
FROM changes AS s LEFT JOIN service AS v ON v.job_no = s.job_no
WHERE u.no = s.job_no RETURNING u.id, u.read_rows - u.rejected, s.over
