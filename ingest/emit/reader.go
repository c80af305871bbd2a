package emit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

// Bounds of a chunk, which are those of an atomic batch.
const (
	chunkLines = 1000
	chunkBytes = 3 << 20
)

// chunk is a batch's worth of valid lines.
type chunk struct {
	msgs  []client.Message
	lines []int // the number of each message's line
	text  []byte
	bytes int64 // of input, rejected and blank lines included
}

// reader cuts the input into chunks of valid events.
type reader struct {
	in     *bufio.Reader
	stages event.Stages
	tally  *tally
	line   int
	record event.Record
	chunk  *chunk
}

func newReader(in io.Reader, stages event.Stages, t *tally) *reader {
	// The buffer holds a line of any valid length, and many chunks: where it
	// runs dry, a chunk goes before it is full.
	return &reader{in: bufio.NewReaderSize(in, 16*event.MaxSize), stages: stages, tally: t}
}

// chunks sends the input to out until it ends, or until ctx does.
func (r *reader) chunks(ctx context.Context, out chan<- *chunk) error {
	r.reset()
	for {
		if r.full() || r.mayBlock() {
			if !r.hand(ctx, out) {
				return ctx.Err()
			}
		}
		line, err := r.in.ReadSlice('\n')
		r.chunk.bytes += int64(len(line))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			r.line++
			r.tally.reject(r.line, nil, event.Invalid{
				Code: "line_size",
				Rule: fmt.Sprintf("the line is longer than the %d bytes that an event can have", event.MaxSize),
			})
			err = r.skipLine()
		default:
			r.take(line)
		}
		if err != nil {
			r.hand(ctx, out)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("emit: read line %d: %w", r.line+1, err)
		}
	}
}

func (r *reader) full() bool {
	return len(r.chunk.msgs) == chunkLines || len(r.chunk.text) >= chunkBytes
}

// mayBlock tells whether the next line is not there yet. What has been read so
// far must then not wait for it.
func (r *reader) mayBlock() bool {
	if len(r.chunk.msgs) == 0 {
		return false
	}
	buffered, _ := r.in.Peek(r.in.Buffered())
	return bytes.IndexByte(buffered, '\n') < 0
}

// hand gives the chunk to a worker and begins another.
func (r *reader) hand(ctx context.Context, out chan<- *chunk) bool {
	select {
	case out <- r.chunk:
		r.reset()
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *reader) reset() {
	r.chunk = &chunk{msgs: make([]client.Message, 0, chunkLines), lines: make([]int, 0, chunkLines)}
}

// take judges a line and adds it to the chunk.
func (r *reader) take(line []byte) {
	if len(line) == 0 { // at the end of the input
		return
	}
	r.line++
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	if broken := r.broken(line); len(broken) > 0 {
		r.tally.reject(r.line, line, broken...)
		return
	}
	// The reader's buffer is about to change. Where text grows into new
	// memory, earlier messages keep the old.
	start := len(r.chunk.text)
	r.chunk.text = append(r.chunk.text, line...)
	r.chunk.msgs = append(r.chunk.msgs,
		client.EventMessage(&r.record, r.chunk.text[start:len(r.chunk.text):len(r.chunk.text)]))
	r.chunk.lines = append(r.chunk.lines, r.line)
}

// broken decodes a line and returns all rules that it breaks.
func (r *reader) broken(line []byte) []event.Invalid {
	now := time.Now()
	invalid := event.Decode(line, &r.record)
	if invalid == nil {
		// Who can publish to NATS may backfill.
		invalid = r.record.Validate(r.stages, now, true)
	}
	misspelt := r.record.Misspelt()
	if invalid == nil && misspelt == nil {
		return nil
	}
	broken := r.record.Faults(r.stages, now, true)
	for _, e := range misspelt {
		broken = append(broken, *e)
	}
	return broken
}

func (r *reader) skipLine() error {
	for {
		rest, err := r.in.ReadSlice('\n')
		r.chunk.bytes += int64(len(rest))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
