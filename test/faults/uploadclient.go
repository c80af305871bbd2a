package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace/client"
)

// clients works rows of a large upload with the Go client, which reports many at a time. Every other connection breaks
// with what it has.
func (l *uploadLoad) clients(ctx context.Context, i int) {
	random := rand.New(rand.NewPCG(l.seed, 90+uint64(i)))
	for ctx.Err() == nil {
		life, stop := context.WithTimeout(ctx, 5*time.Second+time.Duration(random.IntN(20_000))*time.Millisecond)
		l.client(life, random.IntN(2) == 0 && !l.honest.Load())
		stop()
	}
}

func (l *uploadLoad) client(ctx context.Context, breaks bool) {
	nc, err := connect(l.workURL)
	if err != nil {
		wait(ctx, 200*time.Millisecond)
		return
	}
	defer nc.Close()
	if breaks {
		defer context.AfterFunc(ctx, nc.Close)()
	}
	err = client.Work(ctx, nc, uploadQueue, l.handleRow, client.WorkConfig{
		Worker: fmt.Sprint("enricher-go-", l.serial.Add(1)), Concurrency: 64, Grace: time.Second,
	})
	if err != nil && !breaks {
		l.notes.fail("client.Work: %v", err)
	}
}

// handleRow says of a row what reportRow does.
func (l *uploadLoad) handleRow(ctx context.Context, it client.Item) error {
	p, row, ok := l.rowOf(uploadQueue, it.Payload)
	if !ok {
		return client.Permanent(errors.New("another payload"))
	}
	switch fate := p.fate(row); {
	case fate == rowMissing:
		client.NotFound(ctx)
	case fate == rowSkipped:
		client.Skipped(ctx)
	case fate == rowInvalid:
		return &client.Failure{Err: errors.New("no product"), Class: "invalid"}
	case fate == rowFails && it.Attempt == 1:
		return client.After(0, &client.Failure{Err: errors.New("broken"), Class: "network"})
	case fate == rowThrottled && it.Attempt == 1:
		return &client.Failure{Err: errors.New("busy"), Class: "throttled", Domain: shopOf(row), RetryAfter: time.Second}
	default:
		return client.SetResult(ctx, map[string]int{"upload": p.n, "row": row})
	}
	return nil
}

// shopOf is the shop that a row of a large upload asks.
func shopOf(row int) string { return fmt.Sprintf("shop-%d.example", row%7) }
