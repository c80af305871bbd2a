UPDATE millrace.batch_error AS e SET state = u.state, version = u.version, generation = u.generation, tries = u.tries, category = u.category,
    code = u.code, print = u.print, queue = u.queue, item_id = nullif(u.item, 0),
    due_at = CASE WHEN u.state = 'waiting' THEN now() + u.wait * interval '1 second' ELSE e.due_at END, fault = NULL
FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::bigint[], $8::text[],
    $9::bigint[], $10::float8[], $11::integer[]) AS u (id, state, version, tries, category, code, print, queue, item, wait, generation)
WHERE e.id = u.id
