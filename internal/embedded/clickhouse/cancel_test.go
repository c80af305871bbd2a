package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Two queries that do not end by themselves: one computes, one sends rows.
const (
	computing = "SELECT sum(sipHash64(number)), '%s' FROM numbers(10000000000000)"
	sending   = "SELECT number, '%s' FROM numbers(10000000000000)"
)

// await asks until running queries that contain mark are as many as want.
func await(t *testing.T, conn driver.Conn, mark string, want uint64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	ask := fmt.Sprintf("SELECT count() FROM system.processes WHERE position(query, concat('%s', '%s')) > 0", mark[:1],
		mark[1:])
	for count(t, conn, ask) != want {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not %d running", mark, want)
		}
	}
}

func TestCancelledQuery(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		watch := client(t)
		mark := "cancel-" + strings.ReplaceAll(t.Name(), "/", "-")
		ctx, cancel := context.WithCancel(testContext(t))
		ended := make(chan error, 1)
		go func() { ended <- conn.Exec(ctx, fmt.Sprintf(computing, mark)) }()
		await(t, watch, mark, 1)
		cancel()
		if err := <-ended; err == nil {
			t.Error("no error")
		}
		await(t, watch, mark, 0)
	})
}

func TestTimeLimit(t *testing.T) {
	err := client(t).Exec(testContext(t), computing+" SETTINGS max_execution_time = 0.2")
	var e *ch.Exception
	if !errors.As(err, &e) || e.Code != 159 {
		t.Error(err)
	}
}

func TestKilledClient(t *testing.T) {
	watch := client(t)
	for _, c := range []struct{ mark, sql string }{
		{"killed-computing", computing},
		{"killed-sending", sending},
	} {
		t.Run(c.mark, func(t *testing.T) {
			raw := dial(t, "default", password)
			raw.query(fmt.Sprintf(c.sql, c.mark))
			await(t, watch, c.mark, 1)
			raw.Close()
			await(t, watch, c.mark, 0)
		})
	}
}

func TestHTTPKilledClient(t *testing.T) {
	watch := client(t)
	for _, c := range []struct{ mark, sql string }{
		{"http-killed-computing", computing},
		{"http-killed-sending", sending},
	} {
		t.Run(c.mark, func(t *testing.T) {
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			target := "http://" + server.HTTPAddr().String() + "/?user=default&password=" + password
			req, err := http.NewRequestWithContext(ctx, "POST", target, strings.NewReader(fmt.Sprintf(c.sql, c.mark)))
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					<-ctx.Done()
					resp.Body.Close()
				}
			}()
			await(t, watch, c.mark, 1)
			cancel()
			<-ended
			await(t, watch, c.mark, 0)
		})
	}
}

// TestCancelledWithLongIDs: statements are cancelled whatever their clients have named
// them, at one time, and beside others.
func TestCancelledWithLongIDs(t *testing.T) {
	watch := client(t)
	const mark = "cancelled-long-ids"
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var all sync.WaitGroup
	const statements = 12
	for i := range statements {
		id := fmt.Sprint(i, strings.Repeat("x", i%2*60_000))
		all.Go(func() {
			params := url.Values{"query_id": {id}, "user": {"default"}, "password": {password}}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost,
				"http://"+server.HTTPAddr().String()+"/?"+params.Encode(), strings.NewReader(fmt.Sprintf(computing, mark)))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	await(t, watch, mark, statements)
	cancel()
	all.Wait()
	await(t, watch, mark, 0)
}
