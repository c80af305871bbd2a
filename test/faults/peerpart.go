package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/test/plain"
)

// peerPart is one of the two processes of a peer that is made of package
// test/plain.
type peerPart struct {
	ackWait time.Duration
	doom    string // file: where it is, the process dies after its next insert
}

func newPeer() (*peerPart, error) {
	wait, err := time.ParseDuration(os.Getenv(envAckWait))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envAckWait, err)
	}
	return &peerPart{wait, os.Getenv(envDoom)}, nil
}

// Run consumes until SIGTERM.
func (p *peerPart) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(os.Getenv(envListen), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.RetryOnFailedConnect(true))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		return err
	}
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{os.Getenv(envClickHouse)}, Auth: clickhouse.Auth{
			Database: "millrace", Username: "default",
			Password: chPassword,
		},
	})
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	plain.New(plain.Config{
		Durable: peerConsumer, Table: "peer_events", BatchRows: peerBatchRows, BatchWait: peerBatchWait,
		AckWait: p.ackWait, Stages: stages,
		Inserted: p.dieIfDoomed,
	}, js, conn, slog.New(slog.NewJSONHandler(os.Stderr, nil))).Run(ctx)
	return nc.FlushTimeout(time.Second) // acknowledgements
}

func (p *peerPart) dieIfDoomed() {
	if os.Remove(p.doom) == nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // that can't fail
		select {}
	}
}

// doom has a consumer die between an insert and its acknowledgement, and keeps
// it down until the end.
func doom(p *process) (end func() error, err error) {
	if err := os.WriteFile(doomFile(p), nil, 0o600); err != nil {
		return nil, err
	}
	p.hold(syscall.Signal(0), stopGrace)
	return func() error {
		p.release()
		return nil
	}, nil
}

func doomFile(p *process) string { return p.log + ".doom" }
