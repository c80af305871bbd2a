-- +goose Up

-- Whoever follows the history reads it in the order of transactions: among
-- those that have all ended, nothing comes in between later. Ids are not in
-- that order.
ALTER TABLE millrace.history DROP CONSTRAINT history_pkey;
ALTER TABLE millrace.history ADD PRIMARY KEY (tx, id);

-- +goose Down

ALTER TABLE millrace.history DROP CONSTRAINT history_pkey;
ALTER TABLE millrace.history ADD PRIMARY KEY (id);
