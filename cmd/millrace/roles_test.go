package main

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestBadURLIsNotQuoted: an address that cannot be read keeps its password.
func TestBadURLIsNotQuoted(t *testing.T) {
	for _, servers := range []string{
		"nats://user:sec/ret@127.0.0.1:4222",
		"nats://127.0.0.1:1,nats://user:sec%zzret@127.0.0.1:4222",
	} {
		_, err := connect(t.Context(), servers, slog.New(slog.DiscardHandler))
		if err == nil || strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "zz") ||
			!strings.Contains(err.Error(), "MILLRACE_NATS_URL") {
			t.Errorf("connect = %v", err)
		}
	}
}

// TestVanishedServer: a server that has gone without closing its connections,
// as when its machine loses power, is left for another one.
func TestVanishedServer(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	left := make(chan struct{})
	server := natstest.Start(t, stream.Config{})
	nc, err := connect(t.Context(), "nats://"+vanishing(t)+","+server.URL(), slog.New(slog.DiscardHandler),
		nats.DontRandomize())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetReconnectHandler(func(*nats.Conn) { close(left) })
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Fatal("the connection stays with a server that has gone")
	}
	if got := nc.ConnectedUrl(); got != server.URL() {
		t.Errorf("connected to %s", got)
	}
}

// vanishing is the address of a NATS server that answers a greeting, and then
// nothing any more.
func vanishing(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { conn.Close() })
		ln.Close() // nobody can come back to it
		_, _ = conn.Write([]byte(`INFO {"server_id":"gone","version":"2.15.3","max_payload":1048576,"headers":true}` +
			"\r\n"))
		in := bufio.NewScanner(conn)
		for in.Scan() && in.Text() != "PING" {
		}
		_, _ = conn.Write([]byte("PONG\r\n"))
	}()
	return ln.Addr().String()
}

// TestTakesEvents: a server that is there and answers for no stream, for longer
// than an election lasts, takes no events.
func TestTakesEvents(t *testing.T) {
	nc := natstest.Start(t, stream.Config{}).Connect()
	synctest.Test(t, func(t *testing.T) {
		js := &leaderless{}
		check := (&node{nats: nc}).takesIn(js)
		for _, step := range []struct {
			err  error
			wait time.Duration
			up   bool
		}{
			{nil, 0, true},
			{nats.ErrNoResponders, time.Hour, true}, // just now
			{nats.ErrNoResponders, election, true},
			{nil, time.Second, true},
			{nats.ErrNoResponders, time.Second, true},
			{nats.ErrNoResponders, election + time.Second, false},
			{nil, time.Second, true},
		} {
			time.Sleep(step.wait) // takes no time in here
			js.err = step.err
			if err := check(t.Context()); (err == nil) != step.up {
				t.Errorf("%+v: %v", step, err)
			}
		}
	})
}

// leaderless answers for a stream, or not.
type leaderless struct {
	jetstream.JetStream
	err error
}

func (l *leaderless) Stream(context.Context, string) (jetstream.Stream, error) { return nil, l.err }
