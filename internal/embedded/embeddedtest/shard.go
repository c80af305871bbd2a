package embeddedtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/engines"
)

const (
	// envShard makes a test's binary run a shard. Its value is a shardConfig.
	envShard   = "MILLRACE_TEST_SHARD"
	shardReady = "ready\n" // that a shard says when it takes queries
)

// shardConfig is what a shard's process is told.
type shardConfig struct {
	Dir     string
	Cluster clickhouse.Cluster
}

func (c shardConfig) environ() (string, error) {
	text, err := json.Marshal(c)
	return envShard + "=" + string(text), err
}

// Shard runs this process as a shard when [Shards] has started it as one.
func Shard() (code int, ok bool) {
	text := os.Getenv(envShard)
	if text == "" {
		return 0, false
	}
	if err := runShard(text); err != nil {
		fmt.Fprintln(os.Stderr, "shard:", err)
		return 1, true
	}
	return 0, true
}

// runShard runs a shard until its standard input is closed.
func runShard(text string) error {
	var c shardConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("read %s: %w", envShard, err)
	}
	// The engine writes to shards that have gone, and expects an error.
	signal.Ignore(syscall.SIGPIPE)
	library, err := engines.ClickHouse()
	if err != nil {
		return err
	}
	listeners, err := inherited()
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("MILLRACE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	server, err := clickhouse.New(clickhouse.Config{
		Library: library, Path: c.Dir, Database: "millrace", Listeners: &listeners, Cluster: &c.Cluster,
		Grace: time.Second,
	}, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-ended:
		return err
	}
	fmt.Print(shardReady)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return <-ended
}

// inherited are the listeners that [Shards] has opened.
func inherited() (clickhouse.Listeners, error) {
	native, err := fileListener(3)
	web, failed := fileListener(4)
	return clickhouse.Listeners{Native: native, HTTP: web}, errors.Join(err, failed)
}

func fileListener(fd uintptr) (net.Listener, error) {
	file := os.NewFile(fd, "listener")
	defer file.Close()
	return net.FileListener(file)
}
