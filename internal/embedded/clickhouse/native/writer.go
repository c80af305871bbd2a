package native

import (
	"bufio"
	"cmp"
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
)

// frameSize bounds what is compressed as one frame.
const frameSize = 1 << 20

// Writer encodes a server's packets. Nothing leaves before Flush.
type Writer struct {
	out         *bufio.Writer
	buf         proto.Buffer
	compressors map[compress.Method]*compress.Writer
	revision    uint64
}

// NewWriter returns a writer to dst at [Revision].
func NewWriter(dst io.Writer) *Writer {
	return &Writer{
		out: bufio.NewWriterSize(dst, 128<<10), compressors: map[compress.Method]*compress.Writer{},
		revision: Revision,
	}
}

// Flush sends what was written.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (w *Writer) send() error {
	_, err := w.out.Write(w.buf.Buf)
	w.buf.Reset()
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Identity is what a server says of itself.
type Identity struct {
	Name, DisplayName, TimeZone string
	Major, Minor, Patch         int
	Revision                    uint64 // that is spoken; 0: Revision
}

// Hello answers a client's hello, and lowers the revision to the client's.
func (w *Writer) Hello(id Identity, client Hello) error {
	id.Revision = cmp.Or(id.Revision, Revision)
	w.revision = min(id.Revision, client.Revision)
	hello := proto.ServerHello{
		Name: id.Name, Major: id.Major, Minor: id.Minor, Revision: int(id.Revision),
		Timezone: id.TimeZone, DisplayName: id.DisplayName, Patch: id.Patch,
	}
	hello.EncodeAware(&w.buf, int(id.Revision))
	return w.send()
}

// Pong answers a ping.
func (w *Writer) Pong() error {
	proto.ServerCodePong.Encode(&w.buf)
	return w.send()
}

// EndOfStream ends the answer to a query.
func (w *Writer) EndOfStream() error {
	proto.ServerCodeEndOfStream.Encode(&w.buf)
	return w.send()
}

// Exception ends the answer to a query with an error.
func (w *Writer) Exception(code int, message string) error {
	proto.ServerCodeException.Encode(&w.buf)
	(&proto.Exception{Code: proto.Error(code), Name: "DB::Exception", Message: message}).EncodeAware(&w.buf, Revision)
	return w.send()
}

// Progress tells what was done since the last progress.
type Progress struct{ Rows, Bytes, TotalRows, WrittenRows, WrittenBytes uint64 }

// Progress sends p.
func (w *Writer) Progress(p Progress) error {
	proto.ServerCodeProgress.Encode(&w.buf)
	proto.Progress{
		Rows: p.Rows, Bytes: p.Bytes, TotalRows: p.TotalRows, WroteRows: p.WrittenRows, WroteBytes: p.WrittenBytes,
	}.EncodeAware(&w.buf, Revision)
	return w.send()
}

// Profile sums up a result.
func (w *Writer) Profile(rows, blocks, bytes uint64) error {
	proto.Profile{Rows: rows, Blocks: blocks, Bytes: bytes}.EncodeAware(&w.buf, Revision)
	return w.send()
}

// Compression is how blocks are sent.
type Compression int

// Ways of compression.
const (
	Plain Compression = iota
	LZ4
	ZSTD
)

// Kind is what the rows of a block are.
type Kind = proto.ServerCode

// Kinds of blocks.
const (
	Rows     = proto.ServerCodeData
	Totals   = proto.ServerCodeTotals
	Extremes = proto.ServerCodeExtremes
)

// Block sends b.
func (w *Writer) Block(kind Kind, b Block, how Compression) error {
	kind.Encode(&w.buf)
	w.buf.PutString("") // the result, not a named table
	if err := w.send(); err != nil {
		return err
	}
	f := &frames{Writer: w, how: how}
	proto.BlockInfo{BucketNum: -1}.Encode(&w.buf)
	w.buf.PutUVarInt(uint64(len(b.Columns)))
	w.buf.PutUVarInt(b.Rows)
	for i, c := range b.Columns {
		w.buf.PutString(c.Name)
		w.buf.PutString(c.Type)
		if w.revision >= revisionFlags {
			w.buf.PutBool(false) // the column is written as in a file
		}
		if i < len(b.data) {
			if err := f.write(b.data[i]); err != nil {
				return err
			}
		}
	}
	return f.flush()
}

// frames sends a block in compressed frames, or as it is.
type frames struct {
	*Writer
	how Compression
}

// write sends data behind what is in the writer's buffer.
func (f *frames) write(data []byte) error {
	if f.how == Plain {
		if err := f.send(); err != nil {
			return err
		}
		if _, err := f.out.Write(data); err != nil {
			return fmt.Errorf("send block: %w", err)
		}
		return nil
	}
	for len(data) > 0 {
		n := min(len(data), max(frameSize-len(f.buf.Buf), 0))
		f.buf.PutRaw(data[:n])
		data = data[n:]
		if len(f.buf.Buf) < frameSize {
			break
		}
		if err := f.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush sends what is in the writer's buffer.
func (f *frames) flush() error {
	if f.how == Plain {
		return f.send()
	}
	err := f.frame(f.buf.Buf, f.how)
	f.buf.Reset()
	return err
}

func (w *Writer) frame(data []byte, how Compression) error {
	method := compress.LZ4
	if how == ZSTD {
		method = compress.ZSTD
	}
	frame := w.compressors[method]
	if frame == nil {
		frame = compress.NewWriter(compress.LevelZero, method)
		w.compressors[method] = frame
	}
	if err := frame.Compress(data); err != nil {
		return fmt.Errorf("compress block: %w", err)
	}
	if _, err := w.out.Write(frame.Data); err != nil {
		return fmt.Errorf("send block: %w", err)
	}
	return nil
}
