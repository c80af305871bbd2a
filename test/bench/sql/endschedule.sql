-- The schedules end that these jobs have; see reschedule.sql.
UPDATE millrace.job_schedule AS s SET to_at = now()
FROM generate_series($1::bigint, $2::bigint - 1) AS k, LATERAL (SELECT k * 20 + (k + $3::bigint) % 20 AS i) AS n
WHERE s.to_at IS NULL AND s.job_id
    = (lpad(to_hex(1770000000000 + i), 12, '0') || '7' || substr(md5('job' || i), 1, 3) || '8' || substr(md5('job' || i), 4, 15))::uuid
