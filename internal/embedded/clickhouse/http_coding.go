package clickhouse

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// codings are the values of Content-Encoding that are understood, the cheapest
// for the server first.
var codings = []string{"zstd", "gzip", "deflate", "br"}

// zstdWindow bounds the memory that a request's body can ask for.
const zstdWindow = 128 << 20

// requestBody undoes the coding and the frames of a request's body. An analyst's
// body may only be coded in a way that does not announce how much memory it takes.
func requestBody(r *http.Request, who account) (io.Reader, error) {
	coding, framed := r.Header.Get("Content-Encoding"), r.URL.Query().Get("decompress") == "1"
	if who == reader && (framed || coding == "zstd" || coding == "br") {
		return nil, exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"Analysts' queries are not decompressed but with gzip or deflate: send them so, or as they are")
	}
	body, err := decoded(r.Body, coding)
	if errors.Is(err, io.EOF) {
		return http.NoBody, nil
	}
	if err != nil {
		return nil, err
	}
	if framed {
		body = &frames{Reader: compress.NewReader(body)}
	}
	return body, nil
}

// decoded undoes a coding; [io.EOF] is a body without a byte.
func decoded(body io.Reader, coding string) (decoder io.Reader, err error) {
	switch coding {
	case "", "identity":
		return body, nil
	case "gzip":
		decoder, err = gzip.NewReader(body)
	case "deflate":
		decoder, err = zlib.NewReader(body)
	case "br":
		return brotli.NewReader(body), nil
	case "zstd":
		decoder, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindow))
	default:
		return nil, exception(codeNotImplemented, "NOT_IMPLEMENTED", "Unknown Content-Encoding %s: %s are known",
			coding, strings.Join(codings, ", "))
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, bodyError(err)
	}
	return decoder, nil
}

// frames reads ClickHouse's own compressed frames up to their end, behind which
// [compress.Reader] would begin with the last frame anew.
type frames struct {
	*compress.Reader
	end error
}

func (f *frames) Read(p []byte) (n int, err error) {
	if f.end == nil {
		n, f.end = f.Reader.Read(p)
	}
	if errors.Is(f.end, io.EOF) && !errors.Is(f.end, io.ErrUnexpectedEOF) {
		f.end = io.EOF // between two frames
	}
	return n, f.end
}

// acceptedCoding is the first of our codings that a client accepts, or none.
func acceptedCoding(r *http.Request) string {
	var accepted []string
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if !strings.HasPrefix(weight, "q=0") || strings.Trim(weight, "q=0.") != "" {
			accepted = append(accepted, coding)
		}
	}
	for _, coding := range codings {
		if slices.Contains(accepted, coding) {
			return coding
		}
	}
	return ""
}

// encoder writes a result in some coding.
type encoder interface {
	io.Writer
	Flush() error
	Close() error
}

// newEncoder codes what is written to w; memory for it is small.
func newEncoder(coding string, w io.Writer) (encoder, error) {
	switch coding {
	case "gzip":
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case "deflate":
		return zlib.NewWriterLevel(w, zlib.BestSpeed)
	case "br":
		return brotli.NewWriterOptions(w, brotli.WriterOptions{Quality: brotli.BestSpeed, LGWin: 18}), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<18))
	}
	return plain{w}, nil
}

type plain struct{ io.Writer }

func (plain) Flush() error { return nil }
func (plain) Close() error { return nil }

// framer writes ClickHouse's own compressed frames.
type framer struct {
	dst   io.Writer
	frame *compress.Writer
	buf   []byte
}

func newFramer(how native.Compression, w io.Writer) *framer {
	method := compress.LZ4
	if how == native.ZSTD {
		method = compress.ZSTD
	}
	return &framer{dst: w, frame: compress.NewWriter(compress.LevelZero, method)}
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

func (f *framer) Close() error { return f.Flush() }

// verbatim has what follows framed without compression: clients look for an
// exception in the bytes as they come.
func (f *framer) verbatim() error {
	if err := f.Flush(); err != nil {
		return err
	}
	f.frame = compress.NewWriter(compress.LevelZero, compress.None)
	return nil
}
