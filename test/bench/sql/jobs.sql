-- Sources with a job each, as the reconciliation makes them of sources in the table.
-- $1 to $2: their numbers; $3: when the first is due. The others follow one each millisecond.
WITH n AS MATERIALIZED (
    SELECT i,
        (lpad(to_hex(1770000000000 + i), 12, '0') || '7' || substr(md5('source' || i), 1, 3) || '8' || substr(md5('source' || i), 4, 15))::uuid AS source,
        (lpad(to_hex(1770000000000 + i), 12, '0') || '7' || substr(md5('job' || i), 1, 3) || '8' || substr(md5('job' || i), 4, 15))::uuid AS job,
        'Source ' || lpad(i::text, 9, '0') AS name, 'https://' || md5('site' || i) || '.example.com/news' AS url,
        '{"title":"h1","body":"article","links":"main a"}'::json AS selectors,
        -- of twenty sources one is critical, three are high, twelve normal, four low
        CASE WHEN i % 20 = 0 THEN 'critical' WHEN i % 20 < 4 THEN 'high' WHEN i % 20 < 16 THEN 'normal' ELSE 'low' END AS class,
        $3::timestamptz + (i - $1::bigint) * interval '1 millisecond' AS due
    FROM generate_series($1::bigint, $2::bigint) AS i
), settings (class, minutes, priority, concurrent) AS (
    VALUES ('critical', 15, 100, 3), ('high', 30, 75, 2), ('normal', 60, 50, 1), ('low', 180, 25, 1)
), sources AS (
    INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled, selectors, priority)
    SELECT source, name, url, 10, 1, true, selectors, class FROM n
), states AS (
    INSERT INTO millrace.source_state (source_id, name, url, rate_limit, max_depth, enabled, selectors, priority, own, field_seqs, created_seq,
        creation, last_seq, last_event_at)
    SELECT source, name, url, 10, 1, true, selectors, class, true, '{0,0,0,0,0,0,0}', 0,
        json_build_object('name', name, 'url', url, 'rate_limit', 10, 'max_depth', 1, 'enabled', true, 'selectors', selectors, 'priority', class),
        0, now()
    FROM n
), jobs AS (
    INSERT INTO millrace.job_settings (id, source_id, source_name, url, rate_limit, max_depth, selectors, auto_managed, origin, schedule_kind,
        interval_minutes, interval_type, max_concurrent)
    SELECT job, source, name, url, 10, 1, selectors, true, 'reconciliation', 'interval', minutes,
        CASE WHEN minutes % 60 = 0 THEN 'hours' ELSE 'minutes' END, concurrent
    FROM n JOIN settings USING (class)
), statuses AS (
    INSERT INTO millrace.job_status (id, status, next_run_at, priority) SELECT job, 'pending', due, priority FROM n JOIN settings USING (class)
)
INSERT INTO millrace.job_schedule (job_id, version, from_at, paused, kind, anchor_at, interval_minutes, time_zone, reason)
SELECT job, 1, now(), false, 'interval', due, minutes, 'UTC', 'created' FROM n JOIN settings USING (class)
