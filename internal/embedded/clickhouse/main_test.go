package clickhouse_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/embedded/engines"
)

// server is the one server of this process: the engine exists once.
var server *clickhouse.Server

const (
	password        = "write-secret"
	analystPassword = "read-secret"
)

// envLibrary names the engine's library; without it, the installed one is used.
const envLibrary = "MILLRACE_TEST_LIBCHDB"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if code, ok := embeddedtest.Shard(); ok {
		return code
	}
	if dir := os.Getenv(envChild); dir != "" {
		return child(dir)
	}
	dir, err := os.MkdirTemp("", "millrace-clickhouse-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stop, err := start(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		return 1
	}
	return code
}

func library() (string, error) {
	if path := os.Getenv(envLibrary); path != "" {
		return path, nil
	}
	set, err := engines.Default()
	return set.ClickHouse, err
}

// start runs a server on dir; stop ends it and returns its error.
func start(dir string) (stop func() error, err error) {
	lib, err := library()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("MILLRACE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	cfg := clickhouse.Config{
		Library: lib, Path: dir, Database: "millrace", MemorySetting: "MILLRACE_CLICKHOUSE_MAX_MEMORY",
		Listen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
		Password: password, ReadOnlyPassword: analystPassword, Grace: time.Second, MaxConnections: most,
		MaxReads: reads,
	}
	if os.Getenv("MILLRACE_TEST_MODE") == "serve" {
		cfg.MaxTime, cfg.MaxReadTime, cfg.Patience = 4*time.Second, 2*time.Second, 2*time.Second
	}
	server, err = clickhouse.New(cfg, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-done:
		cancel()
		return nil, err
	}
	ended = func() error { return <-done }
	return func() error {
		cancel()
		return ended()
	}, nil
}

// ended waits for the server's end and returns its error.
var ended func() error
