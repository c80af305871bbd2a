SELECT e.id, e.job_id, e.batch_index, e.position, e.state, e.version, e.generation, e.tries, e.category, e.code, e.print, e.queue,
    e.content_id, e.item_id, e.read_at
FROM millrace.batch_error AS e WHERE {which} ORDER BY e.id FOR UPDATE
