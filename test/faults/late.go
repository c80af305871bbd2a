package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// late is a toxic that keeps the rows of one insert, of all connections, until
// it is removed. An insert is two things to say: its query, and its rows, once
// the server has answered what they consist of. What is kept arrives even if
// who has sent it is dead by then.
type late struct {
	mu   sync.Mutex
	by   *toxics.ToxicStub // of the connection that is kept
	kept *keptInsert       // nil before all of its rows are here
}

// endLater is the time that ClickHouse has for kept rows before it may learn that
// their sender is gone.
const endLater = 2 * time.Second

// keptInsert is one of a batch into the events table.
type keptInsert struct {
	group    uint32
	from, to uint64
}

var eventsToken = regexp.MustCompile(`(?s)insert_deduplication_token..events/(\d+)/(\d+)-(\d+)`)

// askedBy returns the insert whose query a piece of a connection is.
func askedBy(data []byte) *keptInsert {
	m := eventsToken.FindSubmatch(data)
	if m == nil || !ends(data) {
		return nil
	}
	group, err1 := strconv.ParseUint(string(m[1]), 10, 32)
	from, err2 := strconv.ParseUint(string(m[2]), 10, 64)
	to, err3 := strconv.ParseUint(string(m[3]), 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return nil
	}
	return &keptInsert{uint32(group), from, to}
}

// ends tells whether a piece ends with an empty block, as queries and rows do.
func ends(data []byte) bool {
	var b proto.Buffer
	proto.ClientCodeData.Encode(&b)
	proto.ClientData{}.EncodeAware(&b, proto.Version)
	_ = proto.Block{}.EncodeBlock(&b, proto.Version, nil) // there is no column that could fail
	return bytes.HasSuffix(data, b.Buf)
}

// Pipe passes on what one connection says.
func (l *late) Pipe(stub *toxics.ToxicStub) {
	var asked *keptInsert // by the piece before
	var kept []*stream.StreamChunk
	pass := func() {
		for _, c := range kept {
			stub.Output <- c
		}
	}
	for in := stub.Input; ; {
		select {
		case <-stub.Interrupt: // it is removed
			pass()
			if len(kept) > 0 {
				<-time.After(endLater)
			}
			return
		case c := <-in:
			switch {
			case c == nil: // it ended before all of its rows were here
				l.release(stub)
				pass()
				stub.Close()
				return
			case kept == nil && (asked == nil || !l.keep(stub)):
				asked = askedBy(c.Data)
				stub.Output <- c
			default:
				if kept = append(kept, c); ends(c.Data) {
					l.whole(asked)
					in = nil // the end of the connection is kept, too
				}
			}
		}
	}
}

// keep tells whether a connection is the one whose rows are kept.
func (l *late) keep(stub *toxics.ToxicStub) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = stub
	}
	return l.by == stub
}

// release lets another connection be kept.
func (l *late) release(stub *toxics.ToxicStub) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == stub {
		l.by = nil
	}
}

func (l *late) whole(i *keptInsert) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = i
}

// insert waits for one that is kept; nil when none came.
func (l *late) insert(limit time.Duration) (kept *keptInsert) {
	within(limit, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		kept = l.kept
		return kept != nil
	})
	return kept
}

// keepRows keeps the rows of the next insert into the events table back, until
// the end.
func (w *wire) keepRows() (l *late, end func() error, err error) {
	const name = "late"
	toxics.Register(name, new(late))
	added, err := w.proxy.Toxics.AddToxicJson(
		strings.NewReader(`{"name": "late", "type": "late", "stream": "upstream"}`),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("keep rows on their way to %s: %w", w.proxy.Upstream, err)
	}
	return added.Toxic.(*late), func() error { return w.proxy.Toxics.RemoveToxic(context.Background(), name) }, nil
}

// completed tells whether the batch of an insert has every effect. A group that
// has ended is not seen any more.
func (w *watch) completed(i *keptInsert) bool {
	seen := w.last()
	for _, r := range seen {
		if r.group.ID == i.group && r.position() < i.to {
			return false
		}
	}
	return len(seen) > 0
}

// dropped is how many blocks ClickHouse has dropped since it began, because it
// knew their tokens.
func (c *cluster) dropped() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	const sql = "SELECT sum(value) FROM system.events WHERE event = 'DuplicatedInsertedBlocks'"
	answer, err := fetchOnce(ctx, http.MethodPost, "http://"+c.chHTTP+"/?user=default&password="+chPassword, sql)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(answer)))
}

// arrive lets an insert through whose batch another one has completed, and
// waits until ClickHouse has dropped it.
func (s *saboteur) arrive(free func() error) error {
	before, err := s.cluster.dropped()
	if err := errors.Join(err, free()); err != nil {
		return err
	}
	if !within(recoveryLimit, func() bool {
		now, err := s.cluster.dropped()
		return err == nil && now > before
	}) {
		return errors.New("an insert that came late was not dropped by its token, or never came")
	}
	return nil
}
