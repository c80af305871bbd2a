CREATE MATERIALIZED VIEW IF NOT EXISTS peer_stages_view TO peer_stages
AS SELECT stage, source_name, count() AS events FROM peer_events GROUP BY stage, source_name
