-- +goose Up

ALTER TABLE millrace.stage ADD COLUMN measured_lease_s double precision;
COMMENT ON COLUMN millrace.stage.measured_lease_s IS
    'Seconds that count in the place of lease_s while uploads are worked in the queue, by how long workers have items; null: none are.';

-- lease_ms is the shortest lease that would have done for the items of late.
ALTER TABLE millrace.upload ADD COLUMN lease_ms real NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE millrace.upload DROP COLUMN lease_ms;
ALTER TABLE millrace.stage DROP COLUMN measured_lease_s;
