-- Counts the members of the turn $5, behind which the turns are that are left.
UPDATE millrace.act SET done = done + $2, skipped = skipped + $3, failed = failed + $4, worked_at = clock_timestamp(),
    state = CASE WHEN EXISTS (SELECT FROM millrace.act_batch WHERE act_id = $1 AND place > $5) THEN 'running' ELSE 'finished' END,
    ended_at = CASE WHEN NOT EXISTS (SELECT FROM millrace.act_batch WHERE act_id = $1 AND place > $5) THEN clock_timestamp() END
WHERE id = $1
