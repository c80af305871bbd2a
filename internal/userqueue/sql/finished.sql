INSERT INTO millrace.finished (stage, at, item_id) SELECT $1, now(), * FROM unnest($2::bigint[])
