-- +goose Up
-- Every article that has been seen.
CREATE VIEW IF NOT EXISTS articles AS
SELECT
    lower(hex(article_hash))                                    AS url_hash,
    argMin(if(canonical_url = '', article_url, canonical_url), (occurred_at, seq)) AS url,
    any(domain)                                                 AS domain,
    argMin(source_name, (occurred_at, seq))                     AS source_name,
    min(occurred_at)                                            AS first_seen_at
FROM events
GROUP BY article_hash;

-- +goose StatementBegin
-- When each article first reached each stage.
CREATE VIEW IF NOT EXISTS journeys AS
SELECT
    lower(hex(article_hash)) AS url_hash,
    stage,
    min(occurred_at)         AS first_at,
    count()                  AS events
FROM events
GROUP BY article_hash, stage;
-- +goose StatementEnd

-- +goose Down
DROP VIEW IF EXISTS journeys;
DROP VIEW IF EXISTS articles;
