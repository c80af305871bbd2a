-- Events a stage and source, as a table that sums up what is inserted.
CREATE TABLE IF NOT EXISTS peer_stages (stage LowCardinality(String), source_name LowCardinality(String), events UInt64)
ENGINE = SummingMergeTree ORDER BY (stage, source_name)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1
