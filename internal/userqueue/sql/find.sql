SELECT p.id, p.worker FROM millrace.item AS p WHERE p.id = u.id AND p.stage = {queue}
