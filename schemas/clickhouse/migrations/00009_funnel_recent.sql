-- +goose Up
-- A set that is a sketch is large, and few of its articles are new in a batch: what
-- has come since it was written last stands in a row of its own, until that is more
-- than a short list. Both rows are written by one insert into one partition, so that
-- a reader has both or neither.
ALTER TABLE funnel
    ADD COLUMN IF NOT EXISTS recent UInt8 COMMENT '1: what has been counted since the other row of the key was written; the two add up',
    MODIFY ORDER BY (width, bucket, source, stage, slot_group, recent);

-- A projector of an earlier release knows nothing of two rows, and would count wrong:
-- it does not find its column.
ALTER TABLE funnel
    RENAME COLUMN IF EXISTS articles TO article_set;

-- +goose Down
-- Nothing: without the column the two rows of a key would replace one another.
