-- +goose Up
-- A merge holds some of each part's rows in memory, and those of whole days have
-- large sets: so five parts are merged at a time, however many it is elsewhere.
ALTER TABLE funnel_local ON CLUSTER `main`
    MODIFY SETTING merge_selector_base = 5;

-- +goose Down
ALTER TABLE funnel_local ON CLUSTER `main`
    RESET SETTING merge_selector_base;
