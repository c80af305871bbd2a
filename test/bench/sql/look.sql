-- Reads what reschedule.sql has written, as whoever set it would. The first to read a row after
-- a change notes in it that the change is durable, which writes its page to the WAL: jobs are
-- not due for the first time after each change.
SELECT count(*) FROM generate_series($1::bigint, $2::bigint - 1) AS k, LATERAL (SELECT k * 20 + (k + $3::bigint) % 20 AS i) AS n
JOIN millrace.jobs AS j ON j.id
    = (lpad(to_hex(1770000000000 + i), 12, '0') || '7' || substr(md5('job' || i), 1, 3) || '8' || substr(md5('job' || i), 4, 15))::uuid
JOIN millrace.job_schedule AS s ON s.job_id = j.id
