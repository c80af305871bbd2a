-- +goose Up

-- The scheduler takes the jobs that are due by their priority, and a batch of them costs
-- the same however many are due.
DROP INDEX millrace.jobs_due;
CREATE INDEX jobs_due ON millrace.jobs (priority DESC, due_at) WHERE due_at IS NOT NULL;

-- +goose Down

DROP INDEX millrace.jobs_due;
CREATE INDEX jobs_due ON millrace.jobs (due_at, priority DESC) WHERE due_at IS NOT NULL;
