SELECT item_id, stage, generation FROM millrace.claim WHERE plain AND lease_until IS NULL
