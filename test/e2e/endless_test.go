package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
)

// testEndless: analysts' statements that never end hold nothing for long: not
// those that take the engine for ever to read, not those whose client has gone
// without a proper cancel, and not those that the engine cannot be made to end,
// for which it is replaced.
func testEndless(t *testing.T, s *server) {
	nested := "SELECT " + strings.Repeat("(", 40) + "1" + strings.Repeat(" BETWEEN 1 AND 2)", 40)
	for range 3 {
		if status, _, answer := s.within(t, 10*time.Second, "", nested); status != http.StatusInternalServerError ||
			!strings.Contains(answer, "TOO_DEEP_RECURSION") {
			t.Errorf("a nested statement: status %d: %.200s", status, answer)
		}
	}
	s.abandon(t, 100) // more than may run at one time
	if status, _, answer := s.within(t, 10*time.Second, "", "SELECT 1"); status != http.StatusOK {
		t.Errorf("beside abandoned statements: status %d: %.200s", status, answer)
	}
	before := s.ask("SELECT count() FROM events")
	bomb := "SELECT repeat('a',1000000) LIKE repeat('%a',5000)"
	status, _, answer := s.within(t, time.Minute, "&max_execution_time=1", bomb)
	if status != http.StatusRequestTimeout || !strings.Contains(answer, "is replaced") {
		t.Errorf("a statement that the engine does not end: status %d: %.200s", status, answer)
	}
	poll(t, waitLimit, "the engine to end", func() bool { // it answers others for a moment more
		body, err := text(http.Get(s.url("/metrics")))
		return err == nil && strings.Contains(body,
			`millrace_engine_restarts_total{engine="clickhouse",reason="stuck"} 1`)
	})
	poll(t, waitLimit, "the engine to be replaced", func() bool {
		body, err := text(http.Get("http://" + s.ports.ClickHouseHTTP + "/?user=analyst&query=" +
			url.QueryEscape("SELECT count() >= "+before+" FROM events")))
		return err == nil && body == "1\n"
	})
	if status, _, answer := s.within(t, 10*time.Second, "", bomb); status != http.StatusTooManyRequests {
		t.Errorf("the statement again: status %d: %.200s", status, answer)
	}
}

// text is the body of an answer with status 200.
func text(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d: %.200s", resp.StatusCode, body)
	}
	return string(body), err
}

// within has an analyst's statement answered in time.
func (s *server) within(
	t *testing.T, limit time.Duration, params, sql string,
) (status int, header http.Header, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+s.ports.ClickHouseHTTP+"/?user=analyst"+params, strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	status, header, body := s.read(resp, nil)
	return status, header, string(body)
}

// abandon has ch-go begin statements that do not end, and leaves them as it does:
// it says a cancel that is none, and closes.
func (s *server) abandon(t *testing.T, statements int) {
	t.Helper()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range statements / 10 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				conn, err := ch.Dial(t.Context(), ch.Options{
					Address: s.ports.ClickHouse, Database: "millrace",
					User: "analyst",
				})
				if err != nil {
					t.Error(err)
				} else {
					var sum proto.ColUInt64
					_ = conn.Do(ctx, ch.Query{
						Body:   "SELECT sum(sipHash64(number)) AS s FROM numbers(10000000000000)",
						Result: proto.Results{{Name: "s", Data: &sum}},
					})
					_ = conn.Close()
				}
				cancel()
			}
		})
	}
	all.Wait()
}
