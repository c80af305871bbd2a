CREATE TABLE job_executions (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id        uuid NOT NULL,
    source_name   text,
    status        text NOT NULL,
    started_at    timestamptz,
    completed_at  timestamptz,
    items_crawled integer NOT NULL DEFAULT 0,
    items_indexed integer NOT NULL DEFAULT 0
);
CREATE INDEX ON job_executions (started_at, id);

CREATE TABLE classification_history (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    content_url   text,
    source_name   text,
    quality_score integer,
    topics        text[],
    model_version text,
    classified_at timestamp -- without a zone: UTC
);
CREATE INDEX ON classification_history (classified_at, id);

CREATE TABLE publish_history (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    article_url  text,
    channel_name text,
    published_at timestamptz
);
CREATE INDEX ON publish_history (published_at, id);
