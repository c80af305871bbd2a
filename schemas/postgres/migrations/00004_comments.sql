-- +goose Up

-- A table with a comment is one that people may read: see GrantReading. Each of
-- its columns has one too.
COMMENT ON TABLE millrace.file IS 'Files of events that were cut into shards, one row each.';
COMMENT ON COLUMN millrace.file.filename IS 'Name of the file, unique.';
COMMENT ON COLUMN millrace.file.priority IS 'From 0 to 9; shards of files with a higher one are handed out first.';
COMMENT ON COLUMN millrace.file.created_at IS 'When the file was registered.';
COMMENT ON COLUMN millrace.file.cancelled_at IS 'When the file was cancelled; null: it was not.';

COMMENT ON TABLE millrace.pipeline_tracking IS 'The state of each shard of each file at each stage, one row a shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.id IS 'Number of the item, by which other tables name the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.created_at IS 'When the shard was registered.';
COMMENT ON COLUMN millrace.pipeline_tracking.updated_at IS 'When anything in the row last changed.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard IS 'Number of the shard within its file, from 0.';
COMMENT ON COLUMN millrace.pipeline_tracking.event_ingest_status IS 'Where the shard stands at the stage event-ingest: new, started, done or failed.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_splitter_status IS 'Where the shard stands at the stage shard-splitter: new, started, done or failed.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_worker_status IS 'Where the shard stands at the stage shard-worker: new, started, done or failed.';
COMMENT ON COLUMN millrace.pipeline_tracking.mysql_sender_status IS 'Where the shard stands at the stage mysql-sender: new, started, done or failed.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_splitter_generation IS 'How many times the shard was made available to shard-splitter, the present one included.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_worker_generation IS 'How many times the shard was made available to shard-worker, the present one included.';
COMMENT ON COLUMN millrace.pipeline_tracking.mysql_sender_generation IS 'How many times the shard was made available to mysql-sender, the present one included.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_splitter_attempts IS 'How many times shard-splitter has started on the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_worker_attempts IS 'How many times shard-worker has started on the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.mysql_sender_attempts IS 'How many times mysql-sender has started on the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.priority IS 'Priority of the file, from 0 to 9.';
COMMENT ON COLUMN millrace.pipeline_tracking.filename IS 'Name of the file that the shard is of.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_splitter_allowed IS 'Attempts of shard-splitter after which the shard is dead; null: as the stage says.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_worker_allowed IS 'Attempts of shard-worker after which the shard is dead; null: as the stage says.';
COMMENT ON COLUMN millrace.pipeline_tracking.mysql_sender_allowed IS 'Attempts of mysql-sender after which the shard is dead; null: as the stage says.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_splitter_taken_at IS 'When a worker of shard-splitter last took the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_worker_taken_at IS 'When a worker of shard-worker last took the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.mysql_sender_taken_at IS 'When a worker of mysql-sender last took the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_splitter_worker IS 'Name of the worker of shard-splitter that last took the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_worker_worker IS 'Name of the worker of shard-worker that last took the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.mysql_sender_worker IS 'Name of the worker of mysql-sender that last took the shard.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_splitter_error IS 'Error of the last attempt of shard-splitter that failed.';
COMMENT ON COLUMN millrace.pipeline_tracking.shard_worker_error IS 'Error of the last attempt of shard-worker that failed.';
COMMENT ON COLUMN millrace.pipeline_tracking.mysql_sender_error IS 'Error of the last attempt of mysql-sender that failed.';

COMMENT ON TABLE millrace.ready IS 'Shards that workers can take now, one row a shard and stage.';
COMMENT ON COLUMN millrace.ready.item_id IS 'The shard: pipeline_tracking.id.';
COMMENT ON COLUMN millrace.ready.since IS 'Since when it can be taken.';
COMMENT ON COLUMN millrace.ready.generation IS 'Generation of the shard at this stage.';
COMMENT ON COLUMN millrace.ready.stage IS 'The stage: stage.stage.';
COMMENT ON COLUMN millrace.ready.priority IS 'Priority of the file; higher ones are handed out first.';

COMMENT ON TABLE millrace.delayed IS 'Shards that workers can take at a later time, one row a shard and stage.';
COMMENT ON COLUMN millrace.delayed.item_id IS 'The shard: pipeline_tracking.id.';
COMMENT ON COLUMN millrace.delayed.due_at IS 'From when on it can be taken.';
COMMENT ON COLUMN millrace.delayed.generation IS 'Generation of the shard at this stage.';
COMMENT ON COLUMN millrace.delayed.stage IS 'The stage: stage.stage.';
COMMENT ON COLUMN millrace.delayed.given_at IS 'When the delay began.';

COMMENT ON TABLE millrace.claim IS 'Shards that workers have started on, one row a shard and stage.';
COMMENT ON COLUMN millrace.claim.item_id IS 'The shard: pipeline_tracking.id.';
COMMENT ON COLUMN millrace.claim.lease_until IS 'Until when the worker has it without a word; null: until it says more.';
COMMENT ON COLUMN millrace.claim.generation IS 'Generation of the shard at this stage.';
COMMENT ON COLUMN millrace.claim.stage IS 'The stage: stage.stage.';
COMMENT ON COLUMN millrace.claim.given_at IS 'When the worker took it, or last extended its lease.';

COMMENT ON TABLE millrace.failed IS 'Shards that have failed and were not retried, one row a shard and stage.';
COMMENT ON COLUMN millrace.failed.item_id IS 'The shard: pipeline_tracking.id.';
COMMENT ON COLUMN millrace.failed.failed_at IS 'When it failed.';
COMMENT ON COLUMN millrace.failed.stage IS 'The stage: stage.stage.';
COMMENT ON COLUMN millrace.failed.dead IS 'Whether it has no attempt left.';

COMMENT ON TABLE millrace.history IS 'Every change of the status of a shard, one row each.';
COMMENT ON COLUMN millrace.history.id IS 'Number of the change.';
COMMENT ON COLUMN millrace.history.item_id IS 'The shard: pipeline_tracking.id.';
COMMENT ON COLUMN millrace.history.at IS 'When it happened.';
COMMENT ON COLUMN millrace.history.tx IS 'Transaction that wrote it; changes in order of tx and id are in the order in which they took effect.';
COMMENT ON COLUMN millrace.history.attempt IS 'Attempt at the stage that it belongs to.';
COMMENT ON COLUMN millrace.history.stage IS 'The stage: stage.stage; 0: event-ingest.';
COMMENT ON COLUMN millrace.history.move IS 'What was asked: start, done, fail, retry, release, again, expire, cancel or register.';
COMMENT ON COLUMN millrace.history.status IS 'Status of the shard at the stage after the change.';
COMMENT ON COLUMN millrace.history.worker IS 'Name of the worker that asked for it.';
COMMENT ON COLUMN millrace.history.error IS 'Error that came with it.';

COMMENT ON TABLE millrace.stage IS 'Stages that have queues, with their switches, one row each.';
COMMENT ON COLUMN millrace.stage.stage IS 'Number of the stage, in the order of the pipeline.';
COMMENT ON COLUMN millrace.stage.name IS 'Name of the stage, and of its queue.';
COMMENT ON COLUMN millrace.stage.paused IS 'Whether nothing of the stage is handed out.';
COMMENT ON COLUMN millrace.stage.concurrency IS 'How many shards all workers together may have started; null: any number.';
COMMENT ON COLUMN millrace.stage.max_attempts IS 'Attempts after which a shard is dead; 0: it never is.';
COMMENT ON COLUMN millrace.stage.updated_at IS 'When a switch was last changed.';

-- +goose Down

-- +goose StatementBegin
DO $$
DECLARE
    name text;
    part text;
BEGIN
    FOREACH name IN ARRAY ARRAY['file', 'pipeline_tracking', 'ready', 'delayed', 'claim', 'failed', 'history', 'stage'] LOOP
        EXECUTE format('COMMENT ON TABLE millrace.%I IS NULL', name);
        FOR part IN SELECT column_name FROM information_schema.columns WHERE table_schema = 'millrace' AND table_name = name LOOP
            EXECUTE format('COMMENT ON COLUMN millrace.%I.%I IS NULL', name, part);
        END LOOP;
    END LOOP;
END
$$;
-- +goose StatementEnd
