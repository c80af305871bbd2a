package clickhouse

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

const (
	minProgress     = 100 * time.Millisecond
	readerProgress  = time.Second
	progressHeaders = 32 // of one response: clients bound the size of all headers
)

// counts are what a statement has done. Over HTTP numbers are strings, as
// ClickHouse writes them.
type counts struct {
	ReadRows     uint64 `json:"read_rows,string"`
	ReadBytes    uint64 `json:"read_bytes,string"`
	WrittenRows  uint64 `json:"written_rows,string"`
	WrittenBytes uint64 `json:"written_bytes,string"`
	TotalRows    uint64 `json:"total_rows_to_read,string"`
	ResultRows   uint64 `json:"result_rows,string"`
	ResultBytes  uint64 `json:"result_bytes,string"`
	Elapsed      int64  `json:"elapsed_ns,string"`
	Memory       uint64 `json:"memory_usage,string,omitempty"`
}

// tally has the counts of a request as they become known.
type tally struct {
	began time.Time

	mu    sync.Mutex
	done  counts
	steps []string // what was done by the time of each report, as headers
}

// chunk adds what the engine says with a part of a result, or while it works on
// one.
func (t *tally) chunk(c chdb.Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done.ReadRows += c.ReadRows
	t.done.ReadBytes += c.ReadBytes
	t.done.WrittenRows += c.WrittenRows
	t.done.WrittenBytes += c.WrittenBytes
	t.done.TotalRows += c.TotalRows
	t.done.ResultRows += c.Rows
	if !c.Report {
		return
	}
	t.done.Memory = c.Memory
	t.steps = append(t.steps, t.text())
	if len(t.steps) > progressHeaders {
		t.steps = t.steps[1:]
	}
}

// sent adds bytes of the result.
func (t *tally) sent(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done.ResultBytes += uint64(n)
}

// sum is what has been done so far.
func (t *tally) sum() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// headers tell what has been done so far.
func (t *tally) headers(h http.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, step := range t.steps {
		h.Add("X-ClickHouse-Progress", step)
	}
	h.Set("X-ClickHouse-Summary", t.text())
}

func (t *tally) text() string {
	now := t.done
	now.TotalRows = max(now.TotalRows, now.ReadRows)
	now.Elapsed = time.Since(t.began).Nanoseconds()
	text, _ := json.Marshal(now)
	return string(text)
}

// progressFirst writes a result of a format with progress, a JSON object a line, with
// the first report in front. A server has it there; the engine reports later, within
// interactive_delay. A result whose first holdBack bytes have no report stays as it is.
type progressFirst struct {
	out  io.Writer
	held []byte
	line int // where the first line begins that is not known to be whole
	done bool
}

var progressEvent = []byte(`{"progress":`)

func (p *progressFirst) Write(b []byte) (int, error) {
	if p.done {
		return p.out.Write(b)
	}
	p.held = append(p.held, b...)
	for p.line <= holdBack {
		length := bytes.IndexByte(p.held[p.line:], '\n') + 1
		if length == 0 {
			break
		}
		event := p.held[p.line : p.line+length]
		if bytes.HasPrefix(event, progressEvent) {
			before, behind := p.held[:p.line], p.held[p.line+length:]
			p.held = bytes.Join([][]byte{event, before, behind}, nil)
			return len(b), p.flush()
		}
		p.line += length
	}
	if len(p.held) > holdBack {
		return len(b), p.flush()
	}
	return len(b), nil
}

// flush writes what is held.
func (p *progressFirst) flush() error {
	p.done = true
	if len(p.held) == 0 {
		return nil
	}
	_, err := p.out.Write(p.held)
	p.held = nil
	return err
}
