package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// testLiftedLimits: an analyst of Postgres who lifts the limits of the login has them all the
// same, and cannot fill the disk.
func testLiftedLimits(t *testing.T, s *server) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit) // the statement has 60 s
	defer cancel()
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("analyst", s.secret("postgres/analyst-password")),
		Host: s.ports.Postgres, Path: "/millrace",
	}
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; "+
		"SET transaction_timeout = 0; SET default_transaction_read_only = off; SET work_mem = '2000MB'"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"SELECT pg_logical_emit_message(false, 'x', repeat('x', 100000000))",
		"SELECT count(*) FROM (SELECT i, array_agg(i) FROM generate_series(1, 30000000) AS i GROUP BY i) AS a",
	} {
		if _, err := conn.Exec(ctx, sql); err == nil {
			t.Errorf("it is done: %s", sql)
		}
		if conn.IsClosed() {
			t.Fatalf("its session ends with: %s", sql)
		}
	}
	_, err = conn.Exec(ctx, "SELECT pg_sleep(600)")
	var ended *pgconn.PgError
	if !errors.As(err, &ended) || ended.Code != "57P01" { // terminated by another
		t.Errorf("a statement whose limit was lifted: %v", err)
	}
}

// caller is somebody who is told apart by the token, or else by the address.
type caller struct {
	*http.Client
	token string
}

// caller returns the one of a number, who reads as little as the system allows.
func (s *server) caller(t *testing.T, number int) caller {
	t.Helper()
	dialer := net.Dialer{Control: shortOfHearing, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+number))}}
	transport := &http.Transport{DisableCompression: true, DialContext: dialer.DialContext}
	c := caller{Client: &http.Client{Transport: transport}}
	t.Cleanup(c.CloseIdleConnections)
	if slices.Contains(s.env, "AUTH_JWT_SECRET="+attackSecret) {
		c.token = sign(t, attackSecret, jwt.SigningMethodHS256, jwt.MapClaims{
			"sub": fmt.Sprint("caller ", number), "scope": "read events:write", "exp": time.Now().Add(time.Hour).Unix(),
		})
	}
	return c
}

// do sends a request, and returns the answer, whose body is to be closed.
func (c caller) do(ctx context.Context, method, target, kind, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("Content-Type", kind)
	return c.Do(req)
}

// testSlowExports: four exports that one caller does not read leave room for another caller.
func testSlowExports(t *testing.T, s *server) {
	const events, lines = 200, 25
	slow, other := s.caller(t, 0), s.caller(t, 1)
	large := strings.Repeat("x", 60_000)
	for i := range events / lines { // more than what the system holds for a reader
		var batch strings.Builder
		for k := range lines {
			fmt.Fprintln(&batch, valid(map[string]any{
				"source_name": "bulky", "metadata": map[string]string{"a": large},
				"article_url": fmt.Sprintf("https://example.com/bulky/%d/%d", i, k),
			}))
		}
		body, err := text(other.do(t.Context(), http.MethodPost, s.url(api+"/events/batch"), "application/x-ndjson",
			batch.String()))
		if err != nil {
			t.Fatalf("%v: %.300s", err, body)
		}
	}
	target := s.url(api + "/events/export?format=ndjson&source=bulky")
	poll(t, waitLimit, "large events to be exported", func() bool {
		body, err := text(other.do(t.Context(), http.MethodGet, target, "", ""))
		return err == nil && strings.Count(body, "\n") == events
	})

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	begun := make(chan *http.Response, 4)
	for range 4 {
		go func() {
			resp, err := slow.do(ctx, http.MethodGet, target, "", "")
			if err == nil {
				defer resp.Body.Close()
			}
			begun <- resp
			<-ctx.Done()
		}()
	}
	for range 2 {
		if resp := <-begun; resp == nil || resp.StatusCode != http.StatusOK {
			t.Errorf("an export that nobody is in the way of: %+v", resp)
		}
	}
	resp, err := other.do(t.Context(), http.MethodGet, target, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || strings.Count(string(body), "\n") != events {
		t.Errorf("beside slow readers, an export of another caller: %s, %d bytes, %v", resp.Status, len(body), err)
	}
}

// testSlowQueries: more queries of analysts than ClickHouse has connections for, whose texts
// never end, keep no other analyst out.
func testSlowQueries(t *testing.T, s *server) {
	http.DefaultClient.CloseIdleConnections() // they give way to new ones, maybe while a request is being sent
	const connections = 256                   // over HTTP
	for range connections + 10 {
		conn, err := net.Dial("tcp", s.ports.ClickHouseHTTP)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(waitLimit))
		if _, err := io.WriteString(conn, "POST /?user=analyst HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"+
			"Expect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(io.LimitReader(conn, 12)); string(said) != "HTTP/1.1 100" {
			t.Fatalf("the server does not ask for the query: %q, %v", said, err)
		}
	}
	if status, _, answer := s.sql("analyst", "SELECT 1"); status != http.StatusOK {
		t.Errorf("beside slow queries: status %d: %.200s", status, answer)
	}
}
