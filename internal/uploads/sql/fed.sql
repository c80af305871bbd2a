-- Rows become items, or errors where no item can hold them. Their jobs are locked. It returns how many: fewer, where a
-- job may not be fed any more, or a row waits no more. Nobody else changes the rows meanwhile, so they stay where they are.
WITH fed AS MATERIALIZED (
    SELECT * FROM unnest($1::integer[], $2::integer[], $3::bigint[], $4::text[]) AS f (job_no, row_no, item, fault)
), jobs AS MATERIALIZED (
    SELECT no, {next} AS at, c.claim FROM unnest($5::integer[], $6::integer[]) AS c (job, claim), LATERAL (
        SELECT no, changed_at FROM millrace.upload WHERE no = c.job AND queue_state IN ('QUEUED', 'RUNNING')
        AND cancelled_at IS NULL AND deleted_at IS NULL
    ) AS u
), waiting AS MATERIALIZED (
    -- By the primary key, see walking: with status = 0 among the conditions, all rows of the job may be read for each.
    SELECT f.item, i.place, jobs.at FROM fed AS f JOIN jobs ON jobs.no = f.job_no, LATERAL (
        SELECT ctid AS place, status FROM millrace.upload_item WHERE job_no = f.job_no AND row_no >= f.row_no
            AND row_no <= f.row_no ORDER BY row_no LIMIT 1
    ) AS i WHERE i.status = 0
), moved AS (
    UPDATE millrace.upload_item AS i SET status = CASE WHEN w.item IS NULL THEN 3 ELSE 1 END, item_id = w.item, due_at = NULL,
        version = i.version + 1, updated_at = w.at
    FROM waiting AS w WHERE i.ctid = w.place
    RETURNING i.job_no, i.status
), faults AS (
    INSERT INTO millrace.upload_result (job_no, row_no, error) SELECT job_no, row_no, fault FROM fed WHERE item IS NULL
    ON CONFLICT (job_no, row_no) DO UPDATE SET result = NULL, error = excluded.error
), sums AS (
    SELECT job_no, count(*)::integer AS n, (count(*) FILTER (WHERE status = 1))::integer AS queued FROM moved GROUP BY job_no
), counted AS (
    UPDATE millrace.upload AS u SET pending = pending - s.n, processing = processing + s.queued,
        error = error + s.n - s.queued, changed_at = jobs.at, last_heartbeat = clock_timestamp(),
        started_at = coalesce(u.started_at, now()), queue_state = 'RUNNING',
        claim = CASE WHEN jobs.claim > 0 THEN jobs.claim ELSE u.claim END,
        slice_items = CASE WHEN jobs.claim > 0 THEN 0 ELSE u.slice_items END,
        slice_at = CASE WHEN jobs.claim > 0 THEN now() ELSE u.slice_at END
    FROM sums AS s JOIN jobs ON jobs.no = s.job_no WHERE u.no = s.job_no
)
SELECT count(*)::integer FROM moved
