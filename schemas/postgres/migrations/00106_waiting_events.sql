-- +goose Up

-- Events that wait for their source are looked up once a second.
CREATE INDEX processed_events_waiting ON millrace.processed_events (seq) WHERE outcome = 'waiting';

-- +goose Down
DROP INDEX millrace.processed_events_waiting;
