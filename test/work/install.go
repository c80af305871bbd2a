package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"github.com/millrace-io/millrace/internal/embedded/port"
	"github.com/millrace-io/millrace/internal/retry"
)

// installation is the program, on ports and in a folder of its own.
type installation struct {
	args           []string
	cmd            *exec.Cmd // the latest
	http, nats     string    // addresses
	postgres, data string
	log            string // file
}

// install chooses the places, starts the program and waits until it is ready.
func install(ctx context.Context, cfg config, dir string) (*installation, error) {
	addrs, err := port.Reserve(5)
	if err != nil {
		return nil, err
	}
	in := &installation{
		http: addrs[0], nats: addrs[1], postgres: addrs[2], data: filepath.Join(dir, "data"),
		log: filepath.Join(dir, "millrace.log"),
	}
	in.args = []string{
		cfg.bin, "--log-format=json", "up", "--no-demo", "--data=" + in.data, "--http-addr=" + in.http,
		"--nats-listen=" + in.nats, "--postgres-listen=" + in.postgres, "--clickhouse-listen=" + addrs[3],
		"--clickhouse-http=" + addrs[4],
		"--work-ack-wait=" + cfg.lease.String(),
	}
	return in, in.start(ctx)
}

// start starts the program and waits until it is ready. What it says goes behind
// what it has said before.
func (in *installation) start(ctx context.Context) error {
	log, err := os.OpenFile(in.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	in.cmd = exec.Command(in.args[0], in.args[1:]...)
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt reaches it through us
	in.cmd.Stderr = log
	if err := in.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", in.args[0], err)
	}
	if in.ready(ctx) {
		return nil
	}
	return errors.Join(context.Cause(ctx), in.stop())
}

func (in *installation) ready(ctx context.Context) bool {
	for ; ctx.Err() == nil; sleep(ctx, 50*time.Millisecond) {
		if answer, err := http.Get("http://" + in.http + "/ready"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	return false
}

func (in *installation) stop() error {
	_ = in.cmd.Process.Signal(syscall.SIGTERM) // an error: it has ended
	if err := in.cmd.Wait(); err != nil {
		text, _ := os.ReadFile(in.log)
		return fmt.Errorf("the program ended: %w\n%s", err, text[max(0, len(text)-4096):])
	}
	return nil
}

// kill kills the program, with all that is in it, and starts it again.
func (in *installation) kill(ctx context.Context) error {
	if err := in.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = in.cmd.Wait() // it was killed
	return in.start(ctx)
}

// killPostgres kills the program's Postgres alone, which it starts again, and
// waits until that answers.
func (in *installation) killPostgres(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(in.data, "postgres", "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return fmt.Errorf("find Postgres: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill Postgres: %w", err)
	}
	return in.insist(ctx, http.MethodGet, "/queues", nil, nil)
}

// refusal is an answer that says no.
type refusal struct {
	what   string
	status int
	text   []byte
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: %d %s", r.what, r.status, r.text) }

// refused tells whether an error is an answer that stays the same when asked
// again: Millrace is there, and so is its Postgres.
func refused(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.status < 500 && r.status != http.StatusTooManyRequests
}

// insist asks until there is an answer.
func (in *installation) insist(ctx context.Context, method, path string, body, answer any) error {
	return retry.Backoff{First: 20 * time.Millisecond, Most: 200 * time.Millisecond}.Do(ctx, func() error {
		err := in.ask(ctx, method, path, body, answer)
		if refused(err) {
			return retry.Stop(err)
		}
		return err
	}, nil)
}

func (in *installation) ask(ctx context.Context, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+in.http+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body, req.ContentLength = nil, 0
	}
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if text, err = io.ReadAll(got.Body); err != nil {
		return err
	}
	if got.StatusCode >= 300 {
		return &refusal{method + " " + path, got.StatusCode, text}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func (in *installation) pool(ctx context.Context) (*pgxpool.Pool, error) {
	password, err := os.ReadFile(filepath.Join(in.data, "postgres", "password"))
	if err != nil {
		return nil, fmt.Errorf("find the password of Postgres: %w", err)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("millrace", string(bytes.TrimSpace(password))),
		Host: in.postgres, Path: "/millrace",
	}
	return pgxpool.New(ctx, u.String())
}
