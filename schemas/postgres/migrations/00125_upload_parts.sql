-- +goose Up

-- What a client says of a file that it sends in parts; NULL: the file comes in one request. size is that
-- of the file as it was announced, until it has come in.
ALTER TABLE millrace.upload ADD COLUMN parts json;

-- +goose Down
ALTER TABLE millrace.upload DROP COLUMN parts;
