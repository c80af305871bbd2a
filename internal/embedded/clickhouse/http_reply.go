package clickhouse

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

const (
	// Of a result is held until its status is sent: an exception within it still gets a
	// status of its own.
	holdBack     = 64 << 10
	maxHoldBack  = 1 << 20  // that a client may ask for
	maxWholeRead = 64 << 20 // of an analyst's result under wait_end_of_query
	maxException = 16 << 10 // of its text behind a result: clients look for no more
)

func discard(chdb.Chunk) error { return nil }

// reply is a response on its way out.
type reply struct {
	w      http.ResponseWriter
	r      *http.Request
	engine *engine
	each   time.Duration // that the client has to read some of the result
	left   time.Duration // that it has for all once it has to hurry
	who    account

	id      string // of the query
	options resultOptions
	columns []native.Column // of a result in Native, before its first block
	tally   tally
	entry   *logEntry // of the query log
	tag     string    // marks an exception behind a part of the result
	out     encoder
	held    bytes.Buffer
	whole   *spool // holds all of the result, when the client asks for that
	started bool
}

// prepare sets the headers of a result.
func (p *reply) prepare(req *request) (err error) {
	p.id, p.options, p.tag = req.id, req.result, exceptionTag()
	h := p.w.Header()
	h.Set("X-ClickHouse-Query-Id", req.id)
	h.Set("X-ClickHouse-Format", p.options.format)
	h.Set("X-ClickHouse-Timezone", p.engine.timezone)
	h.Set("X-ClickHouse-Server-Display-Name", p.engine.name)
	h.Set("X-ClickHouse-Exception-Tag", p.tag)
	h.Set("Content-Type", contentType(p.options.format))
	if p.options.coding != "" {
		h.Set("Content-Encoding", p.options.coding)
	}
	if p.options.framed {
		p.out = newFramer(p.options.frames, p.w)
	} else if p.out, err = newEncoder(p.options.coding, p.w); err != nil {
		return fmt.Errorf("compress result: %w", err)
	}
	if p.options.whole {
		p.whole, err = newSpool(p.engine.spoolDir(), &p.engine.spooled)
	}
	return err
}

// exceptionTag is a word that no result has where an exception would be.
func exceptionTag() string {
	tag := make([]byte, 16)
	_, _ = rand.Read(tag)
	for i := range tag {
		tag[i] = 'a' + tag[i]%26
	}
	return string(tag)
}

// run runs q, whose progress the client may want to know.
func (p *reply) run(ctx context.Context, sess session, q query, emit emitter) error {
	q.id, q.progress = p.id, p.options.progress
	if p.who == reader && q.progress > 0 {
		q.progress = max(q.progress, readerProgress)
	}
	return sess.run(ctx, q, func(c chdb.Chunk) error {
		p.tally.chunk(c)
		if len(c.Data) == 0 {
			return nil
		}
		return emit(c)
	})
}

// result runs q and streams its result.
//
// The engine has small results of other statements than SELECT whole, and those in
// Native in parts that are blocks. Others it writes into a pipe, as it would into
// a file: that is the one way it streams formats with a head and a tail.
func (p *reply) result(ctx context.Context, sess session, q query) error {
	q.format = p.options.format
	if strings.HasSuffix(q.format, "WithProgress") && sess.writes() && q.settings["interactive_delay"] == "" {
		q.settings["interactive_delay"] = "1000" // µs: the engine has little progress to tell otherwise
	}
	switch {
	case !statement.HasOutput(q.Verb):
		q.format = "Null"
		return p.run(ctx, sess, q, discard)
	case q.Verb == "SELECT" && q.format != "Native":
		return p.piped(ctx, sess, q)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	copied := make(chan error, 1)
	go func() { copied <- p.drain(ctx, from, cancel) }()
	if p.options.revision > 0 { // the engine leaves time zones out of the types in Native
		q.columns = func(columns []native.Column) { p.columns = columns }
	}
	err := p.run(ctx, sess, q, func(c chdb.Chunk) error {
		_, err := to.Write(c.Data)
		return err
	})
	_ = to.Close()
	return errors.Join(<-copied, err)
}

// piped has the engine write the result of q into a pipe.
func (p *reply) piped(ctx context.Context, sess session, q query) error {
	from, to, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for the result: %w", err)
	}
	q.file = "/dev/fd/" + strconv.Itoa(int(to.Fd()))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	copied := make(chan error, 1)
	go func() { copied <- p.drain(ctx, from, cancel) }()
	err = p.run(ctx, sess, q, discard)
	if isStuck(err) {
		// The engine may still open the pipe by its number, which therefore stays
		// what it is until the process ends.
		_ = from.SetReadDeadline(time.Unix(1, 0))
		<-copied
		p.engine.keep(from, to)
		return err
	}
	_ = to.Close()
	lost := <-copied
	return errors.Join(lost, err, from.Close())
}

// errOver ends the copying of a result whose statement is cancelled.
var errOver = errors.New("the statement is over")

// drain copies the pipe to the response. When the client is gone it cancels the
// query and reads on, so that the engine is not stuck on a full pipe.
func (p *reply) drain(ctx context.Context, from io.Reader, cancel func()) (err error) {
	out := writeFunc(func(b []byte) error {
		if ctx.Err() != nil {
			return errOver
		}
		return p.write(b)
	})
	switch {
	case p.options.revision > 0:
		err = native.Revise(out, from, p.options.revision, func() []native.Column { return p.columns })
	case strings.HasSuffix(p.options.format, "WithProgress"):
		first := &progressFirst{out: out}
		_, err = io.CopyBuffer(first, onlyReader{from}, make([]byte, 64<<10))
		err = errors.Join(err, first.flush())
	default:
		_, err = io.CopyBuffer(out, onlyReader{from}, make([]byte, 64<<10))
	}
	if err == nil {
		return nil
	}
	cancel()
	_, rest := io.Copy(io.Discard, from)
	switch {
	case errors.Is(err, errOver):
		err = nil
	case errors.Is(err, native.ErrType):
		err = exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"A column of the result cannot be sent as Native over HTTP (%v): "+
				"select it as text, or in another format", err)
	}
	return errors.Join(err, rest)
}

type writeFunc func([]byte) error

func (f writeFunc) Write(b []byte) (int, error) { return len(b), f(b) }

// onlyReader has the copy use its own buffer.
type onlyReader struct{ io.Reader }

func (p *reply) write(b []byte) error {
	p.tally.sent(len(b))
	if p.whole != nil {
		if p.who == reader && p.whole.size+int64(len(b)) > maxWholeRead {
			return exception(codeTooManyBytes, "TOO_MANY_ROWS_OR_BYTES",
				"With wait_end_of_query an analyst's result has %d bytes at most", maxWholeRead)
		}
		_, err := p.whole.Write(b)
		return err
	}
	if !p.started {
		p.held.Write(b)
		if p.held.Len() < p.options.hold {
			return nil
		}
		b = p.start()
	}
	p.writeDeadline()
	_, err := p.out.Write(b)
	if err == nil && p.options.hold == 0 {
		err = errors.Join(p.out.Flush(), http.NewResponseController(p.w).Flush())
	}
	return err
}

const codeTooManyBytes = 396

// start sends the status and returns what was held.
func (p *reply) start() []byte {
	p.started = true
	p.tally.headers(p.w.Header())
	p.w.WriteHeader(http.StatusOK)
	return p.held.Bytes()
}

// finish ends the response.
func (p *reply) finish(err error) {
	switch {
	case err != nil && !p.started:
		p.refuse(err)
	case err != nil:
		p.abort(err)
	default:
		err = p.sendHeld()
		if err == nil {
			err = p.out.Close()
		}
		if err != nil && p.started {
			panic(http.ErrAbortHandler) // so that no client takes the result for whole
		}
	}
}

// sendHeld sends what was held, if the rest is not sent already.
func (p *reply) sendHeld() error {
	if p.started {
		return nil
	}
	held := p.start()
	p.writeDeadline()
	if p.whole != nil {
		return p.sendWhole()
	}
	if len(held) == 0 {
		return nil
	}
	_, err := p.out.Write(held)
	return err
}

func (p *reply) sendWhole() error {
	held, err := p.whole.rewind()
	if err != nil {
		return err
	}
	_, err = io.Copy(writeFunc(func(b []byte) error {
		p.writeDeadline()
		_, err := p.out.Write(b)
		return err
	}), onlyReader{held})
	return err
}

// close frees what the reply holds.
func (p *reply) close() {
	if p.whole != nil {
		p.whole.close()
	}
}

// abort ends a response whose status is out: the exception follows what there is
// of the result, framed as ClickHouse does, and the response is left without its
// end, so that no client takes it for whole.
func (p *reply) abort(err error) {
	p.hurry()
	if f, framed := p.out.(*framer); framed {
		_ = f.verbatim()
	}
	text := asException(err).Error()
	text = text[:min(len(text), maxException-200)] + "\n"
	_, _ = fmt.Fprintf(p.out, "\r\n__exception__\r\n%[1]s\r\n%[2]s%[3]d %[1]s\r\n__exception__\r\n", p.tag, text,
		len(text))
	_ = p.out.Flush()
	_ = http.NewResponseController(p.w).Flush()
	panic(http.ErrAbortHandler)
}

// refuse answers with err.
func (p *reply) refuse(err error) {
	p.writeDeadline()
	if !p.tally.began.IsZero() {
		p.tally.headers(p.w.Header())
	}
	answerEarly(p.w, p.r, func() { writeException(p.w, err, p.options.coding) })
}

// answerEarly answers a client that may still send its body, and gives it time to
// read why it need not.
func answerEarly(w http.ResponseWriter, r *http.Request, answer func()) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	answer()
	_ = control.Flush()
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, r.Body, lingerBytes)
}

func writeException(w http.ResponseWriter, err error, coding string) {
	e := asException(err)
	w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.WriteHeader(statusOf(e.Code))
	out, err := newEncoder(coding, w)
	if err != nil {
		return
	}
	_, _ = io.WriteString(out, e.Error()+"\n")
	_ = out.Close()
}

// readDeadline bounds how long a client may take for its statement.
func (p *reply) readDeadline(at time.Time) {
	_ = http.NewResponseController(p.w).SetReadDeadline(at)
}

// writeDeadline gives up on a client that does not read.
func (p *reply) writeDeadline() {
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(p.each))
}

// hurry leaves the client of a statement that is cancelled little time to read.
func (p *reply) hurry() {
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(p.left))
}

// hurryAfter has the client hurry once ctx is done, until stop is called. The
// connection takes other requests then, for which no deadline stays.
func (p *reply) hurryAfter(ctx context.Context) (stop func()) {
	var mu sync.Mutex
	over := false
	unregister := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			p.hurry()
		}
	})
	return func() {
		unregister()
		mu.Lock()
		defer mu.Unlock()
		over = true
		p.writeDeadline() // for what net/http has yet to send
	}
}
