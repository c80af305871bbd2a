package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

var queues = []string{"shard-splitter", "shard-worker", "mysql-sender"}

// installation is the program, on ports and in a folder of its own.
type installation struct {
	cmd            *exec.Cmd
	http, nats     string // addresses
	postgres, data string
	log            string // file
}

// install starts the program and waits until it is ready.
func install(ctx context.Context, cfg config, dir string) (*installation, error) {
	addrs, err := freeAddrs(5)
	if err != nil {
		return nil, err
	}
	in := &installation{http: addrs[0], nats: addrs[1], postgres: addrs[2], data: filepath.Join(dir, "data"), log: filepath.Join(dir, "millrace.log")}
	in.cmd = exec.Command(cfg.bin, "--log-format=json", "up", "--no-demo", "--data="+in.data, "--http-addr="+in.http,
		"--nats-listen="+in.nats, "--postgres-listen="+in.postgres, "--clickhouse-listen="+addrs[3], "--clickhouse-http="+addrs[4],
		"--work-ack-wait="+cfg.lease.String())
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt reaches it through us
	log, err := os.Create(in.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	in.cmd.Stderr = log
	if err := in.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.bin, err)
	}
	for ctx.Err() == nil {
		if answer, err := http.Get("http://" + in.http + "/ready"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return in, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.Join(context.Cause(ctx), in.stop())
}

func (in *installation) stop() error {
	_ = in.cmd.Process.Signal(syscall.SIGTERM) // an error: it has ended
	if err := in.cmd.Wait(); err != nil {
		text, _ := os.ReadFile(in.log)
		return fmt.Errorf("the program ended: %w\n%s", err, text[max(0, len(text)-4096):])
	}
	return nil
}

func (in *installation) post(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+in.http+"/api/v1/pipeline"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return in.do(req, answer)
}

func (in *installation) do(req *http.Request, answer any) error {
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return err
	}
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, got.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// register makes the files' items, over HTTP.
func (in *installation) register(ctx context.Context, files, shards int) error {
	list := make([]int, shards)
	for i := range list {
		list[i] = i
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i := range files {
		g.Go(func() error {
			name := fmt.Sprintf("2025%010d", i)
			if err := in.post(ctx, "/files/register", map[string]any{"filename": name, "shards": list}, nil); err != nil {
				return err
			}
			return in.post(ctx, "/stages/event-ingest/done", map[string]any{"filename": name}, nil)
		})
	}
	return g.Wait()
}

// summary is GET /metrics/summary.
type summary struct {
	Total   int                       `json:"total"`
	ByStage map[string]map[string]any `json:"by_stage"`
	ByShard []struct {
		Shard, Total, Done, Failed int
	} `json:"by_shard"`
}

func (s summary) count(stage, status string) int {
	n, _ := s.ByStage[strings.ReplaceAll(stage, "-", "_")][status].(float64)
	return int(n)
}

func (in *installation) summary(ctx context.Context) (s summary, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+in.http+"/api/v1/pipeline/metrics/summary", nil)
	if err != nil {
		return s, err
	}
	return s, in.do(req, &s)
}

// finished waits until all items are done at the last stage.
func (in *installation) finished(ctx context.Context, items int, out io.Writer) error {
	told := time.Now()
	for {
		s, err := in.summary(ctx)
		if err == nil && s.count(queues[len(queues)-1], "done") == items {
			return nil
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(out, "%d of %d items are through\n", s.count(queues[len(queues)-1], "done"), items)
		}
		select {
		case <-ctx.Done():
			text, _ := json.Marshal(s)
			return fmt.Errorf("%w: %s", context.Cause(ctx), text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (in *installation) pool(ctx context.Context) (*pgxpool.Pool, error) {
	password, err := os.ReadFile(filepath.Join(in.data, "postgres", "password"))
	if err != nil {
		return nil, fmt.Errorf("find the password of Postgres: %w", err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("millrace", string(bytes.TrimSpace(password))), Host: in.postgres, Path: "/millrace"}
	return pgxpool.New(ctx, u.String())
}

// freeAddrs returns addresses that nobody listens on, below the range that
// outgoing connections take theirs from.
func freeAddrs(n int) (all []string, err error) {
	for port := 15_000 + os.Getpid()%10_000; len(all) < n && port < 32_000; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // not before all are found
		all = append(all, l.Addr().String())
	}
	if len(all) < n {
		return nil, errors.New("too few ports are free")
	}
	return all, nil
}
