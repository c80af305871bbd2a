-- +goose Up
-- The fingerprint of a retired event, by which a repeat of it is told from
-- another event with its key. Rows of releases before this column have 0: it is
-- not known, and whatever has their identity is a repeat.
ALTER TABLE retired_identities_local ON CLUSTER `main`
    ADD COLUMN IF NOT EXISTS fingerprint UInt64 COMMENT 'of stage and service_name; 0: not known';

ALTER TABLE retired_identities ON CLUSTER `main`
    ADD COLUMN IF NOT EXISTS fingerprint UInt64 COMMENT 'of stage and service_name; 0: not known';

-- +goose Down
ALTER TABLE retired_identities_local ON CLUSTER `main` DROP COLUMN IF EXISTS fingerprint;

ALTER TABLE retired_identities ON CLUSTER `main` DROP COLUMN IF EXISTS fingerprint;
