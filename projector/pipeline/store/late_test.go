package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// TestLateInsert holds invariant 4: an insert that nothing has been seen of, and
// whose rows reach the server after those of its retry or of its successor,
// changes nothing.
func TestLateInsert(t *testing.T) {
	for name, retried := range map[string]bool{"beside its retry": true, "beside its successor's": false} {
		t.Run(name, func(t *testing.T) {
			direct := engine.Database(t)
			w := newWay(t, direct.Addr[0])
			over := *direct
			over.Addr = []string{w.addr()}
			batch := store.Insert{Group: slots.Group{Of: 1}, To: 100, Recovered: true}
			first, rows, ended := open(t, &over), events(t, batch), make(chan error, 1)
			go func() { ended <- first.InsertEvents(t.Context(), batch, rows) }()
			late := w.await(t)
			if retried { // the connection is lost
				late.client.Close()
				must(t, <-ended)
			} else { // another projector has taken over
				must(t, open(t, direct).InsertEvents(t.Context(), batch, events(t, batch)))
			}
			mustHaveOnce(t, direct, batch)
			late.arrive(t)
			if !retried {
				must(t, <-ended)
			}
			mustHaveOnce(t, direct, batch)
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, opts *clickhouse.Options) *store.Store {
	t.Helper()
	s, err := store.Open(opts, nil, embeddedtest.Log(t))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// address is in the rows of every insert, and in nothing else.
const address = "https://example.com/late/"

// events are a batch's rows, of two partitions.
func events(t *testing.T, b store.Insert) *schema.EventBlock {
	t.Helper()
	block := schema.NewEventBlock()
	for seq := b.From + 1; seq <= b.To; seq++ {
		text, err := json.Marshal(event.Event{
			ArticleURL: fmt.Sprint(address, seq), SourceName: "source", ServiceName: "test", Stage: "crawled",
			OccurredAt: time.Date(2026, 1+time.Month(seq%2), 2, 3, 4, 5, 0, time.UTC),
		})
		must(t, err)
		var r event.Record
		if err := event.Decode(text, &r); err != nil {
			t.Fatal(err)
		}
		block.Append(seq, r.OccurredAt, &r, r.Identity())
	}
	return block
}

// mustHaveOnce fails unless the table has each row of a batch, once.
func mustHaveOnce(t *testing.T, opts *clickhouse.Options, b store.Insert) {
	t.Helper()
	db, err := clickhouse.Open(opts)
	must(t, err)
	defer db.Close()
	var rows, sequences uint64
	must(t, db.QueryRow(t.Context(), "SELECT count(), uniqExact(seq) FROM events").Scan(&rows, &sequences))
	if want := b.To - b.From; rows != want || sequences != want {
		t.Errorf("%d rows of %d sequences, want %d", rows, sequences, want)
	}
}

// way is what connections to a server pass through. The rows of the first insert
// stay on it until they may arrive.
type way struct {
	listener net.Listener
	server   string
	first    sync.Once
	stuck    chan *passage
}

// passage is one connection.
type passage struct {
	client, server net.Conn
	arrives        chan struct{}
	answered       chan struct{} // closed when the server has ended the insert, or the connection
	last           chan byte     // that the server has sent, when it has ended
}

func newWay(t *testing.T, server string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	w := &way{listener: l, server: server, stuck: make(chan *passage, 1)}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go w.pass(client)
		}
	}()
	return w
}

func (w *way) addr() string { return w.listener.Addr().String() }

// pass forwards a connection until the client ends it.
func (w *way) pass(client net.Conn) {
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		client.Close()
		return
	}
	p := &passage{
		client: client, server: server, arrives: make(chan struct{}), answered: make(chan struct{}),
		last: make(chan byte, 1),
	}
	go p.answer()
	defer server.(*net.TCPConn).CloseWrite()
	var kept []byte
	for part := make([]byte, 64<<10); ; {
		n, err := client.Read(part)
		if err != nil {
			return
		}
		if kept == nil && bytes.Contains(part[:n], []byte(address)) {
			w.first.Do(func() { kept = []byte{} })
		}
		if kept == nil {
			_, _ = server.Write(part[:n]) // who has lost it will see
			continue
		}
		if kept = append(kept, part[:n]...); bytes.HasSuffix(kept, endOfInsert()) {
			w.stuck <- p
			<-p.arrives
			_, _ = server.Write(kept)
			<-p.answered // a connection that ends before would cancel the insert
			return
		}
	}
}

// answer forwards what the server says, be there a client or not.
func (p *passage) answer() {
	defer p.client.Close()
	defer p.server.Close()
	var last byte
	ended := sync.OnceFunc(func() { close(p.answered) })
	defer ended()
	for part := make([]byte, 64<<10); ; {
		n, err := p.server.Read(part)
		if err != nil {
			p.last <- last
			return
		}
		if last = part[n-1]; last == byte(proto.ServerCodeEndOfStream) {
			ended()
		}
		_, _ = p.client.Write(part[:n])
	}
}

// endOfInsert is the empty block that ends an insert's rows.
func endOfInsert() []byte {
	var b proto.Buffer
	proto.ClientCodeData.Encode(&b)
	proto.ClientData{}.EncodeAware(&b, proto.Version)
	_ = proto.Block{}.EncodeBlock(&b, proto.Version, nil) // there is no column that could fail
	return b.Buf
}

const limit = time.Minute

// await waits until the whole first insert is stuck.
func (w *way) await(t *testing.T) *passage {
	t.Helper()
	select {
	case p := <-w.stuck:
		return p
	case <-time.After(limit):
		t.Fatal("no insert is sent")
		return nil
	}
}

// arrive lets the rows through, and waits until the server has confirmed them.
func (p *passage) arrive(t *testing.T) {
	t.Helper()
	close(p.arrives)
	select {
	case last := <-p.last:
		if last != byte(proto.ServerCodeEndOfStream) {
			t.Fatalf("the late insert ends with %d, not with the end of its stream", last)
		}
	case <-time.After(limit):
		t.Fatal("the late insert is not answered")
	}
}
