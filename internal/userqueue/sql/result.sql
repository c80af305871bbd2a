UPDATE millrace.item AS t SET result = u.result::json FROM unnest($1::bigint[], $2::text[]) AS u (id, result) WHERE t.id = u.id
