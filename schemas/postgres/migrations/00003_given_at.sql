-- +goose Up

-- When a lease or a delay began. One that began in the future did so by a clock
-- that has been set back since, and begins anew.
ALTER TABLE millrace.claim ADD COLUMN given_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE millrace.delayed ADD COLUMN given_at timestamptz NOT NULL DEFAULT now();

-- +goose Down

ALTER TABLE millrace.claim DROP COLUMN given_at;
ALTER TABLE millrace.delayed DROP COLUMN given_at;
