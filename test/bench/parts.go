package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	embeddednats "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/internal/embedded/port"
)

// A floor has its consumer and its NATS server in processes of their own, so
// that each one's processor time can be told: this program, started again with
// the part's name in the environment. A part ends with its standard input.
const (
	envPart   = "MILLRACE_BENCH_PART"
	envConfig = "MILLRACE_BENCH_CONFIG"
)

// partConfig is what a part has to know.
type partConfig struct {
	Dir        string        `json:",omitempty"` // of the NATS server's streams
	NATS       string        // address
	ClickHouse string        `json:",omitempty"` // address
	Events     int           `json:",omitempty"` // to read
	Sync       time.Duration `json:",omitempty"` // of the NATS server; 0: always

	Peers []string `json:",omitempty"` // where the NATS servers of a cluster listen for each other
	Peer  int      `json:",omitempty"` // which of them it is

	HTTP              string `json:",omitempty"` // address of the program
	Subscribers, Deaf int    `json:",omitempty"` // that read, and that never do
}

// runPart runs the part that the environment names.
func runPart(name string) error {
	var cfg partConfig
	if err := json.Unmarshal([]byte(os.Getenv(envConfig)), &cfg); err != nil {
		return fmt.Errorf("%s: %w", envConfig, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	read, ok := map[string]func(context.Context, partConfig) error{
		"nats": serveNATS, "node": serveNode, "plain": readPlain, "lean": readLean, "subscribers": watchSubscribers,
	}[name]
	if !ok {
		return fmt.Errorf("%s: there is no part %q", envPart, name)
	}
	return read(ctx, cfg)
}

func serveNATS(ctx context.Context, cfg partConfig) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	srv, err := embeddednats.New(embeddednats.Config{
		Listen: cfg.NATS, StoreDir: cfg.Dir, SyncInterval: cfg.Sync,
		User: natsUser, Password: natsPassword,
	}, log)
	if err != nil {
		return err
	}
	return srv.Run(ctx)
}

// part is a running part.
type part struct {
	*exec.Cmd
	input io.Closer
}

// start starts a part. out gets its standard output.
func start(name string, cfg partConfig, out io.Writer, env ...string) (*part, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), envPart+"="+name, envConfig+"="+string(text)), env...)
	cmd.Stdout = out
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd.Stderr = &quiet{}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &part{cmd, input}, nil
}

func (p *part) stop() error { return errors.Join(p.input.Close(), p.wait()) }

func (p *part) wait() error {
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, p.Stderr)
	}
	return nil
}

// quiet keeps the end of a log for errors.
type quiet struct{ text []byte }

func (q *quiet) Write(p []byte) (int, error) {
	q.text = append(q.text, p...)
	q.text = q.text[max(0, len(q.text)-4096):]
	return len(p), nil
}

func (q *quiet) String() string { return string(q.text) }

// natsServer runs a NATS server on a folder, alone in its process.
func natsServer(dir string, sync time.Duration) (addr string, p *part, err error) {
	addrs, err := port.Reserve(1)
	if err != nil {
		return "", nil, err
	}
	p, err = start("nats", partConfig{Dir: filepath.Join(dir, "nats"), NATS: addrs[0], Sync: sync}, nil)
	if err != nil {
		return "", nil, err
	}
	if err := awaitNATS(addrs[0]); err != nil {
		return "", nil, errors.Join(err, p.stop())
	}
	return addrs[0], p, nil
}
