package clickhouse

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// holdBack is how much of a result is held until its status is sent: an
// exception within it still gets a status of its own.
const holdBack = 64 << 10

func discard(chdb.Chunk) error { return nil }

func frameEnd(err error) error {
	if err != nil && errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// reply is a response on its way out.
type reply struct {
	w    http.ResponseWriter
	r    *http.Request
	zone string

	out     io.Writer // the response behind its compression
	flush   func() error
	held    bytes.Buffer
	started bool
}

// prepare sets the headers of a result.
func (p *reply) prepare(req *request) {
	h := p.w.Header()
	h.Set("X-ClickHouse-Query-Id", req.id)
	h.Set("X-ClickHouse-Format", req.format)
	h.Set("X-ClickHouse-Timezone", p.zone)
	h.Set("X-ClickHouse-Server-Display-Name", "millrace")
	h.Set("Content-Type", contentType(req.format))
	p.out, p.flush = p.w, func() error { return nil }
	switch {
	case req.framed:
		f := &framer{dst: p.w, frame: compress.NewWriter(compress.LevelZero, compress.LZ4)}
		p.out, p.flush = f, f.Flush
	case req.gzip:
		h.Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(p.w, gzip.BestSpeed)
		p.out, p.flush = z, z.Close
	}
}

// result runs q and streams its result.
//
// The engine writes the result into a pipe, as it would into a file: that is
// the one way it streams formats with a head and a tail.
func (p *reply) result(ctx context.Context, sess session, q query, format string) error {
	q.format = format
	if !statement.HasOutput(q.Verb) {
		q.format = "Null"
		return sess.run(ctx, q, discard)
	}
	from, to, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for the result: %w", err)
	}
	defer from.Close()
	q.file = "/dev/fd/" + strconv.Itoa(int(to.Fd()))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	copied := make(chan error, 1)
	go func() { copied <- p.drain(from, cancel) }()
	err = sess.run(ctx, q, discard)
	_ = to.Close()
	lost := <-copied
	return errors.Join(lost, err)
}

// drain copies the pipe to the response. When the client is gone it cancels the
// query and reads on, so that the engine is not stuck on a full pipe.
func (p *reply) drain(from io.Reader, cancel func()) error {
	buf := make([]byte, 64<<10)
	var lost error
	for {
		n, err := from.Read(buf)
		if n > 0 && lost == nil {
			if lost = p.write(buf[:n]); lost != nil {
				cancel()
			}
		}
		if errors.Is(err, io.EOF) {
			return lost
		}
		if err != nil {
			cancel()
			return err
		}
	}
}

func (p *reply) write(b []byte) error {
	if !p.started {
		p.held.Write(b)
		if p.held.Len() < holdBack {
			return nil
		}
		b = p.start()
	}
	writeDeadline(p.w)
	_, err := p.out.Write(b)
	return err
}

// start ends holding back and returns what was held.
func (p *reply) start() []byte {
	p.started = true
	p.w.WriteHeader(http.StatusOK)
	return p.held.Bytes()
}

// finish ends the response.
func (p *reply) finish(err error) {
	if err != nil && !p.started {
		writeDeadline(p.w)
		writeException(p.w, err)
		return
	}
	if err != nil {
		// The status is out: the text follows the result, and the response is
		// left without its end, so that no client takes it for whole.
		_, _ = io.WriteString(p.out, "\n"+asException(err).Error()+"\n")
		_ = p.flush()
		_ = http.NewResponseController(p.w).Flush()
		panic(http.ErrAbortHandler)
	}
	if !p.started {
		if held := p.start(); len(held) > 0 {
			_, _ = p.out.Write(held)
		}
	}
	_ = p.flush()
}

// framer writes ClickHouse's own compressed frames.
type framer struct {
	dst   io.Writer
	frame *compress.Writer
	buf   []byte
}

func (f *framer) Write(b []byte) (int, error) {
	f.buf = append(f.buf, b...)
	if len(f.buf) < 1<<20 {
		return len(b), nil
	}
	return len(b), f.Flush()
}

// Flush sends what was written as a frame.
func (f *framer) Flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	if err := f.frame.Compress(f.buf); err != nil {
		return fmt.Errorf("compress result: %w", err)
	}
	f.buf = f.buf[:0]
	_, err := f.dst.Write(f.frame.Data)
	return err
}

func contentType(format string) string {
	switch format {
	case "JSON", "JSONCompact", "JSONStrings", "JSONColumns", "JSONColumnsWithMetadata", "JSONObjectEachRow":
		return "application/json; charset=UTF-8"
	case "JSONEachRow", "JSONCompactEachRow", "JSONStringsEachRow":
		return "application/x-ndjson; charset=UTF-8"
	case "TabSeparated", "TSV", "TabSeparatedWithNames", "TSVWithNames", "TabSeparatedWithNamesAndTypes", "TSVWithNamesAndTypes":
		return "text/tab-separated-values; charset=UTF-8"
	case "CSV", "CSVWithNames", "CSVWithNamesAndTypes":
		return "text/csv; charset=UTF-8; header=" + map[bool]string{true: "absent", false: "present"}[format == "CSV"]
	case "XML":
		return "application/xml; charset=UTF-8"
	case "Native", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes", "Parquet", "Arrow", "ArrowStream", "ORC", "Avro":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
