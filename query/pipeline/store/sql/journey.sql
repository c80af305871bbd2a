-- Events of an article: the newest of each stage, then the newest of all up to
-- the one whose metadata fills the answer. Beside each is when the article first
-- reached its stage, and how often.
SELECT * EXCEPT (nth, held)
FROM
(
    SELECT
        seq,
        occurred_at,
        received_at,
        stage,
        source_name,
        service_name,
        domain,
        article_url,
        lower(hex(article_hash)) AS hash,
        canonical_url,
        trace_id,
        idempotency_key,
        metadata,
        metadata_schema_version,
        model_version,
        channel,
        is_reclassification,
        min(occurred_at) OVER (PARTITION BY stage)                                                                        AS first_at,
        count() OVER (PARTITION BY stage)                                                                                 AS counted,
        row_number() OVER (PARTITION BY stage ORDER BY occurred_at DESC, seq DESC)                                        AS nth,
        sum(length(metadata)) OVER (ORDER BY occurred_at DESC, seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS held
    FROM events
    WHERE article_hash = unhex(@hash)
)
WHERE nth = 1 OR held - length(metadata) < @bytes
ORDER BY
    nth > 1,
    occurred_at DESC,
    seq DESC
LIMIT @limit
