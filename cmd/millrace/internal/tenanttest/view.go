package tenanttest

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/projector/pglease"
)

// View folds the stream into the table, each review once.
type View struct {
	NATS      *nats.Conn
	JetStream jetstream.JetStream
	Postgres  *pgxpool.Pool
	Log       *slog.Logger
}

// Run folds while this process leads, until ctx ends or something fails.
func (v View) Run(ctx context.Context) error {
	lead, err := leader.New(leader.Config{Name: "reviews", Key: 0x6d696c6c_72657673}, v.Postgres, v.Log)
	if err != nil {
		return err
	}
	return lead.Run(ctx, func(ctx context.Context, _ leader.Term) error {
		return pglease.Fold(ctx, pglease.Config{Stream: Stream, Consumer: "reviews", BatchMessages: 500},
			pglease.Deps{NATS: v.NATS, JS: v.JetStream, Postgres: v.Postgres, Log: v.Log}, v.apply)
	})
}

const sqlStore = `INSERT INTO reviews.review (seq, id, page, body, at) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (id) DO NOTHING`

// apply stores a batch and moves the position in one transaction. Messages that break a rule are dead letters before.
func (v View) apply(ctx context.Context, lease *pglease.Lease, batch pglease.Batch) error {
	var rows pgx.Batch
	var letters []deadletter.Letter
	for _, m := range batch.Messages {
		r, rule := parse(m.Data)
		if rule != nil {
			letters = append(letters, m.Letter(Stream, *rule))
			continue
		}
		rows.Queue(sqlStore, m.Seq, r.ID, r.Page, r.Text, time.Unix(0, m.Time))
	}
	if err := deadletter.Publish(ctx, v.JetStream, letters, v.Log); err != nil {
		return err
	}
	lease.Move(&rows, batch.To)
	err := v.Postgres.SendBatch(ctx, &rows).Close() // one transaction
	return lease.Moved(err, batch.To)
}
