package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// TestLate: the rows of one insert arrive when they are let go, be who has sent
// them dead or stopped, and others pass them by.
func TestLate(t *testing.T) {
	for name, dead := range map[string]bool{"from the dead": true, "from one that was stopped": false} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan uint64, 4)
			w := startWire(t, serveInserts(t, arrived))
			sender, other := dialInserts(t, w.proxy.Listen), dialInserts(t, w.proxy.Listen)
			mustInsert(t, sender, "other/0/1-2", 1)
			l, free, err := w.keepRows()
			if err != nil {
				t.Fatal(err)
			}
			later := dialInserts(t, w.proxy.Listen)
			ended := make(chan error, 1)
			go func() { ended <- sender.insert(t.Context(), "events/3/10-2000", 20_000) }()
			if kept := l.insert(time.Minute); kept == nil || *kept != (keptInsert{3, 10, 2000}) {
				t.Fatalf("%+v is kept", kept)
			}
			mustInsert(t, other, "events/3/10-2000", 30)
			mustInsert(t, later, "events/3/10-2000", 40)
			if dead {
				sender.Close()
			}
			if err := free(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; (err != nil) != dead {
				t.Errorf("who has sent the rows hears of %v", err)
			}
			for _, want := range []uint64{1, 30, 40, 20_000} {
				if rows := <-arrived; rows != want {
					t.Errorf("%d rows arrive, want %d", rows, want)
				}
			}
		})
	}
}

// startWire runs a wire to a server for as long as the test lives.
func startWire(t *testing.T, target string) *wire {
	t.Helper()
	w := newWire("127.0.0.1:0", target)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !within(time.Minute, func() bool { w.proxy.Lock(); defer w.proxy.Unlock(); return w.proxy.Enabled }) {
		t.Fatal("the wire does not begin")
	}
	return w
}

// serveInserts takes inserts as ClickHouse does, tells how many rows each has,
// and returns its address.
func serveInserts(t *testing.T, arrived chan<- uint64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = takeInserts(native.NewReader(conn), native.NewWriter(conn), arrived) // its client will see
			}()
		}
	}()
	return l.Addr().String()
}

func takeInserts(in *native.Reader, out *native.Writer, arrived chan<- uint64) error {
	client, err := in.ReadHello()
	if err != nil {
		return err
	}
	if err := out.Hello(native.Identity{Name: "ClickHouse", TimeZone: "UTC"}, client); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := in.ReadAddendum(); err != nil {
		return err
	}
	for {
		if err := out.Flush(); err != nil {
			return err
		}
		if _, err := in.Packet(); err != nil {
			return err
		}
		if _, err := in.ReadQuery(1 << 20); err != nil {
			return err
		}
		if _, err := readBlock(in); err != nil {
			return err
		}
		if err := out.Block(native.Rows, native.Block{Columns: []native.Column{{Name: "n", Type: "UInt64"}}},
			native.Plain); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		rows, err := readBlock(in)
		if err != nil {
			return err
		}
		if _, err := readBlock(in); err != nil {
			return err
		}
		arrived <- rows
		if err := out.EndOfStream(); err != nil {
			return err
		}
	}
}

func readBlock(in *native.Reader) (rows uint64, err error) {
	if code, err := in.Packet(); err != nil || code != native.ClientData {
		return 0, fmt.Errorf("packet %d: %w", code, err)
	}
	blocks := native.NewBlocks(in, false)
	if _, err := blocks.Table(); err != nil {
		return 0, err
	}
	size, err := blocks.Copy(io.Discard)
	return size.Rows, err
}

// inserter is a client that inserts as the projector does.
type inserter struct{ *ch.Client }

func dialInserts(t *testing.T, addr string) inserter {
	t.Helper()
	c, err := ch.Dial(t.Context(), ch.Options{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return inserter{c}
}

func mustInsert(t *testing.T, i inserter, token string, rows int) {
	t.Helper()
	if err := i.insert(t.Context(), token, rows); err != nil {
		t.Fatal(err)
	}
}

func (i inserter) insert(ctx context.Context, token string, rows int) error {
	n := make(proto.ColUInt64, rows)
	input := proto.Input{{Name: "n", Data: &n}}
	return i.Do(ctx, ch.Query{
		Body: input.Into("events"), Input: input,
		Settings: []ch.Setting{
			{Key: "insert_deduplication_token", Value: token},
			{Key: "insert_deduplicate", Value: "1"},
		},
	})
}
