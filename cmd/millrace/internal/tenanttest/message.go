package tenanttest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/item"
)

// Stream has the reviews. Subject is where they are published.
const (
	Stream  = "REVIEWS"
	Subject = "reviews"
)

// Review is a message of the stream. Its id tells a repeated one from a new one.
type Review struct {
	ID   string `json:"id" minLength:"1" maxLength:"64" example:"r-1"`
	Page string `json:"page" minLength:"1" maxLength:"200" example:"/start"`
	Text string `json:"text" maxLength:"4000" example:"Easy to read"`
}

// parse reads a message.
func parse(data []byte) (r Review, rule *item.Invalid) {
	switch err := json.Unmarshal(data, &r); {
	case err != nil:
		return r, &item.Invalid{Code: "json", Rule: "must be a JSON object: " + err.Error()}
	case r.ID == "":
		return r, &item.Invalid{Field: "id", Code: "missing", Rule: "is required"}
	case r.Page == "":
		return r, &item.Invalid{Field: "page", Code: "missing", Rule: "is required"}
	}
	return r, nil
}

// tables are a migration in a real system.
const tables = `CREATE SCHEMA reviews;
CREATE TABLE reviews.review (
	seq bigint PRIMARY KEY, id text NOT NULL UNIQUE, page text NOT NULL, body text NOT NULL, at timestamptz NOT NULL,
	state text NOT NULL DEFAULT 'waiting', item_id bigint UNIQUE, fault text
);
CREATE INDEX ON reviews.review (seq) WHERE state = 'waiting';`

// Prepare makes the stream and the tables.
func Prepare(ctx context.Context, js jetstream.JetStream, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, tables); err != nil {
		return fmt.Errorf("make the tables of reviews: %w", err)
	}
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: Stream, Subjects: []string{Subject}, Discard: jetstream.DiscardNew,
	})
	return err
}
