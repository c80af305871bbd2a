package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/stream"
)

// recordOf is a Postgres, by its URL, over no wire.
type recordOf string

// read runs a query and calls row for each of its rows. Until ctx ends it waits
// for a Postgres that is away, or that starts after a loss of power.
func (url recordOf) read(ctx context.Context, sql string, into []any, row func() error) error {
	var conn *pgx.Conn
	err := backoff.Do(ctx, func() (err error) {
		conn, err = pgx.Connect(ctx, string(url))
		return err
	}, nil)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return query(ctx, conn, sql, into, row)
}

// querier is a connection, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func query(ctx context.Context, from querier, sql string, into []any, row func() error) error {
	rows, err := from.Query(ctx, sql)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, row)
	}
	return err
}

// snapshot reads what belongs together.
func (url recordOf) snapshot(ctx context.Context, read func(querier) error) error {
	conn, err := pgx.Connect(ctx, string(url))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, conn, opts, func(tx pgx.Tx) error { return read(tx) })
}

// history reads how pieces went on, and holds that to the rules. Ids of one item's
// rows are in the order in which they were written: it was locked.
func (url recordOf) history(
	ctx context.Context, v *workVerdict, r *workRecord, sql string, queue func(stage int) string,
) error {
	var p piece
	var stage int
	var move, status, worker string
	holder, lapsed := map[piece]string{}, map[piece]bool{}
	return url.read(ctx, sql, []any{&p.file, &p.shard, &stage, &move, &status, &worker}, func() error {
		p.stage = queue(stage)
		before := r.now[p]
		switch {
		case before == "started" && move == "start" && holder[p] != stream.PlainWorker:
			v.wrong("%v: %s takes what %s has", p, worker, holder[p])
		case move == "done" && lapsed[p]: // after the end of the lease, and before anybody else has begun it
		case !allowed(before, move, status):
			v.wrong("%v: %s from %q to %q", p, move, before, status)
		}
		lapsed[p] = move == "expire"
		switch move {
		case "start":
			holder[p] = worker
			v.starts++
			v.again += btoi(r.said[end{piece: p, move: "start"}] > 0)
			r.said[end{piece: p, move: "start"}]++
		case "done":
			r.done[p]++
		}
		r.said[end{p, move, worker}]++
		r.now[p] = status
		return nil
	})
}
