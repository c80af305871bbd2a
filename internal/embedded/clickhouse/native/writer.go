package native

import (
	"bufio"
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
)

// frameSize bounds what is compressed as one frame.
const frameSize = 1 << 20

// Writer encodes a server's packets. Nothing leaves before Flush.
type Writer struct {
	out    *bufio.Writer
	buf    proto.Buffer
	frames map[compress.Method]*compress.Writer
}

// NewWriter returns a writer to dst.
func NewWriter(dst io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(dst, 128<<10), frames: map[compress.Method]*compress.Writer{}}
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
}

// Hello answers a client's hello.
func (w *Writer) Hello(id Identity) error {
	hello := proto.ServerHello{
		Name: id.Name, Major: id.Major, Minor: id.Minor, Revision: Revision,
		Timezone: id.TimeZone, DisplayName: id.DisplayName, Patch: id.Patch,
	}
	hello.EncodeAware(&w.buf, Revision)
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
type Progress struct{ Rows, Bytes, WrittenRows, WrittenBytes uint64 }

// Progress sends p.
func (w *Writer) Progress(p Progress) error {
	proto.ServerCodeProgress.Encode(&w.buf)
	proto.Progress{
		Rows: p.Rows, Bytes: p.Bytes, WroteRows: p.WrittenRows, WroteBytes: p.WrittenBytes,
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

// Block sends a block of the Native format.
func (w *Writer) Block(block []byte, how Compression) error {
	proto.ServerCodeData.Encode(&w.buf)
	w.buf.PutString("") // the result, not a named table
	if how == Plain {
		w.putBlockInfo()
		if err := w.send(); err != nil {
			return err
		}
		if _, err := w.out.Write(block); err != nil {
			return fmt.Errorf("send block: %w", err)
		}
		return nil
	}
	if err := w.send(); err != nil {
		return err
	}
	w.putBlockInfo()
	first := min(len(block), frameSize)
	w.buf.PutRaw(block[:first])
	if err := w.frame(w.buf.Buf, how); err != nil {
		return err
	}
	w.buf.Reset()
	for block = block[first:]; len(block) > 0; {
		n := min(len(block), frameSize)
		if err := w.frame(block[:n], how); err != nil {
			return err
		}
		block = block[n:]
	}
	return nil
}

func (w *Writer) putBlockInfo() {
	proto.BlockInfo{BucketNum: -1}.Encode(&w.buf)
}

func (w *Writer) frame(data []byte, how Compression) error {
	method := compress.LZ4
	if how == ZSTD {
		method = compress.ZSTD
	}
	frame := w.frames[method]
	if frame == nil {
		frame = compress.NewWriter(compress.LevelZero, method)
		w.frames[method] = frame
	}
	if err := frame.Compress(data); err != nil {
		return fmt.Errorf("compress block: %w", err)
	}
	if _, err := w.out.Write(frame.Data); err != nil {
		return fmt.Errorf("send block: %w", err)
	}
	return nil
}

// Column is a column's name and type.
type Column struct{ Name, Type string }

// Header is a block without rows, in the Native format.
func Header(columns []Column) []byte {
	var b proto.Buffer
	b.PutUVarInt(uint64(len(columns)))
	b.PutUVarInt(0)
	for _, c := range columns {
		b.PutString(c.Name)
		b.PutString(c.Type)
	}
	return b.Buf
}
