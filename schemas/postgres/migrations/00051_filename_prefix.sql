-- +goose Up

-- A filename is what stands before .event-ingest.txt. Files that were registered
-- with it get their filename, unless that is another file's: they stay as they are.
CREATE TEMPORARY TABLE renamed ON COMMIT DROP AS
SELECT filename AS old, left(filename, -length('.event-ingest.txt')) AS new
FROM millrace.file AS f
WHERE filename LIKE '_%.event-ingest.txt'
    AND NOT EXISTS (SELECT FROM millrace.file AS o WHERE o.filename = left(f.filename, -length('.event-ingest.txt')));

UPDATE millrace.pipeline_tracking AS t SET filename = r.new FROM renamed AS r WHERE t.filename = r.old;
UPDATE millrace.file AS f SET filename = r.new FROM renamed AS r WHERE f.filename = r.old;

-- +goose Down

SELECT 1; -- the filenames stay: both releases know them
