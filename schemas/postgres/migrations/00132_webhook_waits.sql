-- +goose Up
ALTER TABLE millrace.webhook_host ADD COLUMN wait_s double precision NOT NULL DEFAULT 60;
COMMENT ON COLUMN millrace.webhook_host.wait_s IS
    'Seconds that the host has asked for. A longer wait is left where the clock was set back.';

-- +goose Down
ALTER TABLE millrace.webhook_host DROP COLUMN wait_s;
