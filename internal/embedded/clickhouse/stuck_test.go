package clickhouse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// bomb is a statement that the engine computes in one block, for minutes.
const bomb = "SELECT repeat('a',1000000) LIKE repeat('%a',5000)"

// untilStuck serves in a process of its own until the engine is to be replaced,
// or its standard input ends.
func untilStuck(stop func() error) int {
	fmt.Println(server.Addr())
	fmt.Println(server.HTTPAddr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
		os.Exit(0)
	}()
	err := ended()
	fmt.Println(err)
	if errors.Is(err, clickhouse.ErrStuck) {
		return 4
	}
	return 1
}

// served is a server in a process of its own, in the mode "serve" with limits of
// seconds.
type served struct {
	pid          int
	native, http string
	stop         func()       // and wait
	exit         <-chan error // has how it ended
}

func serveApart(t *testing.T, dir, mode string) *served {
	t.Helper()
	cmd := childProcess(t, dir, mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	s := &served{pid: cmd.Process.Pid, native: lines.Text()}
	lines.Scan()
	s.http = lines.Text()
	exit := make(chan error, 1)
	go func() {
		for lines.Scan() {
			t.Log(lines.Text())
		}
		exit <- cmd.Wait()
	}()
	s.exit = exit
	s.stop = func() { in.Close(); <-exit }
	return s
}

// replaced waits until the process has ended in order to be replaced.
func (s *served) replaced(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.exit:
		var exit *osexec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 4 {
			t.Fatalf("the process ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the process still runs")
	}
}

// ask has a login's statement answered. Settings may follow the login: &name=value.
func (s *served) ask(t *testing.T, login, sql string) (status int, text string) {
	t.Helper()
	status, text, err := s.post(testContext(t), login, sql)
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

func (s *served) post(ctx context.Context, login, sql string) (int, string, error) {
	name, _, _ := strings.Cut(login, "&")
	key := map[string]string{"default": password, "analyst": analystPassword}[name]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.http+"/?user="+login+"&password="+key,
		strings.NewReader(sql))
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (s *served) options(login string) *driver.Options {
	key := map[string]string{"default": password, "analyst": analystPassword}[login]
	return &driver.Options{Addr: []string{s.native}, Auth: driver.Auth{
		Database: "millrace", Username: login,
		Password: key,
	}}
}

// TestStuckEngine: a statement that the engine does not end has it replaced. Who
// sent it is told, and what was written stays. The statement is refused then, and
// one after the other all that is new from there, but nobody who may write.
func TestStuckEngine(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	dir := t.TempDir()
	s := serveApart(t, dir, "serve")
	for _, sql := range []string{
		"CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n",
		"INSERT INTO kept SELECT number FROM numbers(1000)",
	} {
		if status, text := s.ask(t, "default", sql); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	t.Run("time limit over HTTP", func(t *testing.T) {
		running := make(chan string, 1)
		go func() {
			_, text, err := s.post(context.Background(), "default",
				"SELECT count() FROM kept WHERE NOT ignore(sleepEachRow(0.001))")
			running <- fmt.Sprint(text, err)
		}()
		if status, text := s.ask(t, "analyst", bomb); status != http.StatusRequestTimeout ||
			!strings.Contains(text, "is replaced") {
			t.Errorf("status %d: %s", status, text)
		}
		s.replaced(t)
		if text := <-running; !strings.Contains(text, "1000") {
			t.Errorf("beside it: %s", text)
		}
	})
	s = serveApart(t, dir, "serve")
	t.Run("afterwards", func(t *testing.T) {
		if status, text := s.ask(t, "default", "SELECT count(), sum(n) FROM kept"); text != "1000\t499500\n" {
			t.Errorf("status %d: %s", status, text)
		}
		if status, text := s.ask(t, "analyst", bomb); status != http.StatusTooManyRequests {
			t.Errorf("the statement again: status %d: %s", status, text)
		}
		if status, text := s.ask(t, "analyst", "SELECT 1"); status != http.StatusOK {
			t.Errorf("another one: status %d: %s", status, text)
		}
	})
	t.Run("cancel over the native protocol", func(t *testing.T) {
		conn := open(t, s.options("analyst"))
		ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
		defer cancel()
		if err := conn.Exec(ctx, bomb+" OR 1"); err == nil {
			t.Error("no error")
		}
		s.replaced(t)
	})
	s = serveApart(t, dir, "serve")
	defer func() { s.stop() }()
	t.Run("after the second", func(t *testing.T) {
		var e *driver.Exception
		if err := open(t, s.options("analyst")).Exec(testContext(t), "SELECT 2"); !errors.As(err, &e) || e.Code != 201 {
			t.Errorf("what is new from the address: %v", err)
		}
		if status, text := s.ask(t, "analyst", "SELECT 2"); status != http.StatusTooManyRequests {
			t.Errorf("what is new from the address, over HTTP: status %d: %s", status, text)
		}
		if status, text := s.ask(t, "analyst", "SELECT 1"); status != http.StatusOK {
			t.Errorf("what has run before: status %d: %s", status, text)
		}
		if err := open(t, s.options("default")).Exec(testContext(t), "INSERT INTO kept VALUES (1)"); err != nil {
			t.Error("one who may write:", err)
		}
	})
	t.Run("time limit of one who may write", func(t *testing.T) {
		conn := open(t, s.options("default"))
		var e *driver.Exception
		if err := conn.Exec(testContext(t), fmt.Sprintf(computing, "x")); !errors.As(err, &e) || e.Code != 159 {
			t.Errorf("one who does not end: %v", err)
		}
		if status, text := s.ask(t, "default", fmt.Sprintf(computing, "x")); status != http.StatusRequestTimeout {
			t.Errorf("over HTTP: status %d: %s", status, text)
		}
		if err := conn.Exec(testContext(t), bomb); !errors.As(err, &e) || !strings.Contains(e.Message, "is replaced") {
			t.Errorf("one who is stuck: %v", err)
		}
		s.replaced(t)
	})
	s = serveApart(t, dir, "serve")
	if status, text := s.ask(t, "default", "SELECT count() FROM kept"); text != "1001\n" {
		t.Errorf("at last: status %d: %s", status, text)
	}
}

// TestDeafClient: a client that does not read its result is no reason to replace
// the engine; it is disconnected when its time is over.
func TestDeafClient(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := serveApart(t, t.TempDir(), "serve")
	defer s.stop()
	conn := open(t, s.options("analyst"))
	rows, err := conn.Query(testContext(t), fmt.Sprintf(sending, "deaf"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	resp, err := http.Post("http://"+s.http+"/?user=analyst&password="+analystPassword, "",
		strings.NewReader(fmt.Sprintf(sending, "deaf")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	deadline := time.Now().Add(time.Minute)
	for _, running := s.ask(t, "default", "SELECT count() FROM system.processes WHERE query LIKE concat('%de', 'af%')"); running != "0\n"; {
		if time.Now().After(deadline) {
			t.Fatalf("%s still run", running)
		}
		time.Sleep(50 * time.Millisecond)
		_, running = s.ask(t, "default", "SELECT count() FROM system.processes WHERE query LIKE concat('%de', 'af%')")
	}
	select {
	case err := <-s.exit:
		t.Error("the process has ended:", err)
	default:
	}
}
