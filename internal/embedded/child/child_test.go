package child

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the child, and the parent that is killed: the mode
// says which.
const envMode, envPipe = "CHILD_TEST_MODE", "CHILD_TEST_PIPE"

func TestMain(m *testing.M) {
	switch os.Getenv(envMode) {
	case "":
		os.Exit(m.Run())
	case "serve":
		serve()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		serve()
	case "crash":
		os.Stdout.WriteString("to stdout\n")
		os.Stderr.WriteString("first\n\nthe reason\nno newline")
		os.Exit(3)
	case "parent":
		parent()
	case "watched parent":
		watchedParent()
	}
}

// serve tells the test that it lives by a line on a named pipe, on start and on
// every SIGUSR1. The test sees its end as the end of the pipe.
func serve() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	pipe, err := os.OpenFile(os.Getenv(envPipe), os.O_WRONLY, 0)
	if err != nil {
		os.Exit(9)
	}
	for {
		_, _ = pipe.WriteString("alive\n")
		<-asked
	}
}

func parent() {
	os.Setenv(envMode, "serve")
	c, _ := New(Config{Name: "grandchild", Path: os.Args[0]}, slog.New(slog.DiscardHandler))
	_ = c.Run(context.Background())
}

func watchedParent() {
	os.Setenv(envMode, "serve")
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = cmd.Start()
	release, _ := watch(cmd.Process.Pid)
	defer release()
	_ = cmd.Wait()
}

// pipe makes the named pipe and returns a reader of its lines. Opening it waits
// for the writer.
func pipe(t *testing.T) (open func() *bufio.Reader) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(envPipe, path)
	return func() *bufio.Reader {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return bufio.NewReader(f)
	}
}

func wantLine(t *testing.T, r *bufio.Reader) {
	t.Helper()
	if line, err := r.ReadString('\n'); line != "alive\n" {
		t.Fatalf("read %q, %v from the child", line, err)
	}
}

func wantEnd(t *testing.T, r *bufio.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Fatalf("read %q, %v, want the end of the child", rest, err)
	}
}

type logged struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

// begin runs a child of a mode, and returns it with what ends it and the result.
func begin(t *testing.T, mode string, config Config, log io.Writer) (*Child, func(), <-chan error) {
	t.Helper()
	t.Setenv(envMode, mode)
	config.Name, config.Path = mode, os.Args[0]
	c, err := New(config, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- c.Run(ctx) }()
	t.Cleanup(cancel)
	return c, cancel, result
}

// Invariant 1.
func TestChildDiesWithItsKilledParent(t *testing.T) {
	for _, mode := range []string{"parent", "watched parent"} {
		t.Run(mode, func(t *testing.T) {
			open := pipe(t)
			t.Setenv(envMode, mode)
			cmd := exec.Command(os.Args[0])
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r := open()
			wantLine(t, r)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			wantEnd(t, r)
		})
	}
}

// Invariant 1: threads of the parent come and go, the child stays.
func TestChildOutlivesThreads(t *testing.T) {
	open := pipe(t)
	c, stop, result := begin(t, "serve", Config{}, io.Discard)
	r := open()
	wantLine(t, r)
	<-c.Ready()
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() { runtime.LockOSThread() }) // never unlocked: its thread ends with it
	}
	all.Wait()
	if err := syscall.Kill(c.PID(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	wantLine(t, r)
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
	wantEnd(t, r)
}

// Invariant 2.
func TestChildHasItsOwnGroup(t *testing.T) {
	open := pipe(t)
	c, _, _ := begin(t, "serve", Config{}, io.Discard)
	wantLine(t, open())
	<-c.Ready()
	if group, err := syscall.Getpgid(c.PID()); err != nil || group != c.PID() {
		t.Errorf("the child %d is in group %d, %v", c.PID(), group, err)
	}
}

// Invariant 3: a child that ignores its signal is killed.
func TestStubbornChildIsKilled(t *testing.T) {
	open := pipe(t)
	c, stop, result := begin(t, "stubborn", Config{Stop: []Step{{syscall.SIGTERM, time.Millisecond}}}, io.Discard)
	r := open()
	wantLine(t, r)
	<-c.Ready()
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
	wantEnd(t, r)
}

// Invariant 4.
func TestExitComesWithTheLastLines(t *testing.T) {
	var log logged
	_, _, result := begin(t, "crash", Config{}, &log)
	err := <-result
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("Run = %v, want an ExitError", err)
	}
	if want := "crash ended by itself: exit status 3: first | the reason | no newline"; err.Error() != want {
		t.Errorf("Run = %q, want %q", err, want)
	}
	for _, want := range []string{`msg="to stdout" child=crash`, `msg="the reason"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
}

func TestProbe(t *testing.T) {
	t.Run("succeeds in the end", func(t *testing.T) {
		open := pipe(t)
		tries := 0
		c, stop, result := begin(t, "serve", Config{Probe: func(context.Context) error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}}, io.Discard)
		wantLine(t, open())
		<-c.Ready()
		stop()
		if err := <-result; err != nil || tries != 3 {
			t.Errorf("Run = %v after %d probes", err, tries)
		}
	})
	t.Run("succeeds late", func(t *testing.T) {
		var log logged
		open := pipe(t)
		c, stop, result := begin(t, "serve", Config{ProbeTimeout: 20 * time.Second, Probe: func(context.Context) error {
			if strings.Contains(log.String(), `msg="does not serve yet" child=serve error="it recovers"`) {
				return nil
			}
			return errors.New("it recovers")
		}}, &log)
		wantLine(t, open())
		select {
		case <-c.Ready():
			stop()
			if err := <-result; err != nil {
				t.Error(err)
			}
		case err := <-result:
			t.Error("the log does not say why:", err)
		}
	})
	t.Run("never succeeds", func(t *testing.T) {
		pipe(t) // which the child waits for
		_, _, result := begin(t, "serve", Config{
			ProbeTimeout: time.Millisecond,
			Probe:        func(context.Context) error { return errors.New("no answer") },
		}, io.Discard)
		if err := <-result; err == nil || !strings.Contains(err.Error(), "serve does not serve after 1ms: no answer") {
			t.Errorf("Run = %v", err)
		}
	})
	t.Run("is cancelled when the child ends", func(t *testing.T) {
		_, _, result := begin(t, "crash", Config{Probe: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}, io.Discard)
		var exit *ExitError
		if err := <-result; !errors.As(err, &exit) {
			t.Errorf("Run = %v, want an ExitError", err)
		}
	})
	t.Run("is cancelled by the caller", func(t *testing.T) {
		probing := make(chan struct{})
		_, stop, result := begin(t, "serve", Config{Probe: func(ctx context.Context) error {
			close(probing)
			<-ctx.Done()
			return ctx.Err()
		}}, io.Discard)
		<-probing
		stop()
		if err := <-result; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestMissingProgram(t *testing.T) {
	c, err := New(Config{Name: "ghost", Path: "/no/such/program"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run = %v", err)
	}
	if err := c.Run(t.Context()); err == nil {
		t.Error("a second Run was accepted")
	}
}

func TestExec(t *testing.T) {
	out, err := Exec(t.Context(),
		Config{Name: "echo", Path: "/bin/sh", Args: []string{"-c", "echo hello; echo aside >&2"}})
	if out != "hello\n" || err != nil {
		t.Errorf("Exec = %q, %v", out, err)
	}
	_, err = Exec(t.Context(), Config{Name: "sh", Path: "/bin/sh", Args: []string{"-c", "echo why >&2; exit 4"}})
	if err == nil || err.Error() != "sh: exit status 4: why" {
		t.Errorf("Exec = %v", err)
	}
	open := pipe(t)
	t.Setenv(envMode, "stubborn")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := Exec(ctx, Config{Name: "stubborn", Path: os.Args[0]})
		done <- err
	}()
	r := open()
	wantLine(t, r)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Exec = %v", err)
	}
	wantEnd(t, r)
}

func TestLongLinesAreCut(t *testing.T) {
	var got []string
	w := &lineWriter{emit: func(s string) { got = append(got, s) }}
	for range 40 {
		_, _ = w.Write(make([]byte, 1000))
		_, _ = w.Write([]byte(strings.Repeat("x", 1000)))
	}
	_, _ = w.Write([]byte("\nshort\r\n"))
	w.flush()
	if len(got) < 4 || got[len(got)-1] != "short" {
		t.Errorf("%d lines, the last is %q", len(got), got[len(got)-1])
	}
}
