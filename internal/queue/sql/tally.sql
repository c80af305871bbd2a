INSERT INTO millrace.tally_delta (kind, key, n)
SELECT * FROM unnest($1::integer[], $2::integer[], $3::bigint[])
