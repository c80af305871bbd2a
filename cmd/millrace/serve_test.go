package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestIngestAlone: the role that takes events in starts, takes them and is
// ready while ClickHouse and Postgres are away.
func TestIngestAlone(t *testing.T) {
	nobody, addr := freeAddr(t), freeAddr(t)
	server := natstest.Start(t, stream.Config{})
	var c cli
	parser, err := newParser(&c, t.Output(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	command, err := parser.Parse([]string{
		"serve", "--role=ingest", "--http-addr=" + addr, "--nats-url=" + server.URL(), "--data=" + t.TempDir(),
		"--clickhouse-dsn=clickhouse://default@" + nobody + "/millrace",
		"--postgres-dsn=postgres://millrace@" + nobody + "/millrace",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- command.Run(&program{
			ctx: ctx, hurry: t.Context(),
			log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ready := awaitReady(t, addr)
	if ready.Status != "ready" || len(ready.Checks) != 2 || ready.Checks[1].Status != "down" || ready.Checks[1].Needed {
		t.Errorf("%+v", ready)
	}
	postEvent(t, addr)
}

// postEvent has an event taken in.
func postEvent(t *testing.T, addr string) {
	t.Helper()
	event := fmt.Sprintf(`{"article_url":"https://example.com/1","source_name":"s","stage":"crawled",`+
		`"occurred_at":%q,"service_name":"c"}`,
		time.Now().UTC().Format(time.RFC3339))
	resp, err := http.Post("http://"+addr+"/api/v1/events", "application/json", strings.NewReader(event))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("POST /events: %s", resp.Status)
	}
}

// awaitReady asks until the server answers that it is ready.
func awaitReady(t *testing.T, addr string) (r httpapi.Readiness) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/ready")
		if err != nil {
			continue
		}
		err = json.NewDecoder(resp.Body).Decode(&r)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			return r
		}
	}
	t.Fatalf("not ready: %+v", r)
	return r
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
