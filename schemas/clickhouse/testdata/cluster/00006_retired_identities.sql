-- +goose Up
-- Identities of retired events, by which a repeat of one is told from a new
-- event when a projector's key store is filled anew. They are written before
-- the retirement counts, and so before the events are removed. Those of events
-- that were removed by releases before this table are not in it.
CREATE TABLE IF NOT EXISTS retired_identities_local ON CLUSTER `main`
(
    month    UInt32 COMMENT 'of occurred_at, yyyymm',
    seq      UInt64 COMMENT 'sequence in the EVENTS stream' CODEC(Delta, LZ4),
    slot     UInt8 COMMENT 'first byte of article_hash',
    identity FixedString(16) COMMENT 'as in events' CODEC(NONE)
)
ENGINE = ReplicatedReplacingMergeTree
PARTITION BY month
ORDER BY (seq)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS retired_identities ON CLUSTER `main` AS retired_identities_local
ENGINE = Distributed('main', currentDatabase(), 'retired_identities_local', cityHash64(seq));

-- +goose Down
DROP TABLE IF EXISTS retired_identities ON CLUSTER `main`;

DROP TABLE IF EXISTS retired_identities_local ON CLUSTER `main` SYNC;
