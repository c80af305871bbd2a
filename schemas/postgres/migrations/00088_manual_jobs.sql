-- +goose Up

-- Whether jobs are made by hand still. It has one row, which whoever makes a job by
-- hand holds until his transaction ends: once migrated_at is set, no other one is made.
CREATE TABLE millrace.job_migration (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    migrated_at timestamptz -- since when jobs are not made by hand any more; null: they may be
);
INSERT INTO millrace.job_migration DEFAULT VALUES;

-- +goose Down

DROP TABLE millrace.job_migration;
