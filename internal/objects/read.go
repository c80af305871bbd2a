package objects

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/schemas/object"
)

// Bounds of an object.
const (
	MaxSize = 64 << 20 // bytes: of the object as it is stored, and of its content
	// MaxRatio is how many bytes of content a byte of an object may become. Content of
	// less than freeRatio bytes may have any ratio.
	MaxRatio  = 1000
	freeRatio = 1 << 20
)

// Bounds of the time that an object takes.
const (
	// Stall is how long a storage may send nothing.
	Stall = 10 * time.Second
	// MaxTime is how long all of an object may take.
	MaxTime = 5 * time.Minute
)

// maxWindow is how far back zstd may look, and so what a decoder allocates: as much as the
// levels of zstd below its ultra ones look back, and twice that.
const maxWindow = 16 << 20

// Kinds of errors.
var (
	// ErrMissing: there is no such object, or not yet.
	ErrMissing = errors.New("the object is not there")
	// ErrChanged: the object was replaced or deleted while it was read.
	ErrChanged = errors.New("the object changed while it was read")
	// ErrTooLarge: the object or its content has more than MaxSize bytes, or more content
	// than MaxRatio allows.
	ErrTooLarge = errors.New("the object is too large")
	// ErrDamaged: the content is not what its checksum says, or it is compressed and ends
	// before its end.
	ErrDamaged = errors.New("the object is damaged")
)

// Storage holds objects in buckets.
type Storage interface {
	// Open begins to read an object. Reading ends with ctx. An object that is not there is
	// an ErrMissing.
	Open(ctx context.Context, o object.Name) (Object, error)
}

// Object is one version of an object, which is being read. Read returns an ErrDamaged where
// the storage finds that what it has read is not what was stored.
type Object interface {
	io.ReadCloser
	// Changed tells whether there is now another version, or none. It is asked when all
	// has been read, or reading has failed.
	Changed(ctx context.Context) (bool, error)
	// Metadata is what was stored beside the content, by its name; nil: nothing.
	Metadata() map[string]string
	// Size is how many bytes there are, as the storage says.
	Size() int64
}

// Read returns the content of an object and the metadata of the same version. The content may be plain, or compressed by
// gzip or zstd; its first bytes tell which.
func Read(ctx context.Context, s Storage, o object.Name) ([]byte, map[string]string, error) {
	content, metadata, err := read(ctx, s, o, Stall)
	if err != nil {
		return nil, nil, fmt.Errorf("read object %s: %w", o, err)
	}
	return content, metadata, nil
}

func read(
	ctx context.Context, s Storage, o object.Name, stall time.Duration,
) ([]byte, map[string]string, error) {
	if err := o.Check(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch := time.AfterFunc(stall, func() { stop(fmt.Errorf("the storage sent nothing for %s", stall)) })
	defer watch.Stop()
	object, err := s.Open(reading, o)
	if err != nil {
		return nil, nil, cause(reading, err)
	}
	defer object.Close()
	stored := &storedReader{from: object, alive: func() { watch.Reset(stall) }}
	content, err := decode(stored)
	watch.Stop()
	changed, lookErr := object.Changed(ctx)
	switch {
	case changed:
		return nil, nil, ErrChanged
	case err != nil:
		return nil, nil, cause(reading, err)
	case lookErr != nil:
		return nil, nil, fmt.Errorf("look whether it has changed: %w", lookErr)
	}
	return content, object.Metadata(), nil
}

// cause returns why reading was ended, if it was, and else the error.
func cause(reading context.Context, err error) error {
	if c := context.Cause(reading); c != nil {
		return c
	}
	return err
}

// storedReader reads an object as it is stored. It keeps its error, since decompression
// makes others of it.
type storedReader struct {
	from  io.Reader
	alive func()
	size  int
	err   error
}

func (r *storedReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.from.Read(p)
	r.size += n
	if n > 0 {
		r.alive()
	}
	if r.err = err; r.size > MaxSize {
		r.err = fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, MaxSize)
	}
	return n, r.err
}

// decode reads all of an object and returns its content.
func decode(stored *storedReader) ([]byte, error) {
	buffered := bufio.NewReaderSize(stored, 64<<10)
	content, err := decompressed(buffered, stored)
	if err == nil { // also what follows, since checksums are compared at the end
		_, err = io.Copy(io.Discard, buffered)
	}
	if stored.err != nil && !errors.Is(stored.err, io.EOF) {
		return nil, stored.err
	}
	return content, err
}

func decompressed(from *bufio.Reader, stored *storedReader) ([]byte, error) {
	first, _ := from.Peek(4) // the next read returns the error
	switch {
	case bytes.HasPrefix(first, []byte{0x1f, 0x8b}):
		zip, err := gzip.NewReader(from)
		if err != nil {
			return nil, damaged("gzip", err)
		}
		return bounded(zip, stored, "gzip")
	case bytes.Equal(first, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		zip, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxSize), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, damaged("zstd", err)
		}
		defer zip.Close()
		return bounded(zip, stored, "zstd")
	}
	return bounded(from, stored, "")
}

func damaged(compression string, err error) error {
	switch {
	case compression == "":
		return err
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: its content has more than %d bytes", ErrTooLarge, MaxSize)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("%w: zstd must look back at most %d bytes", ErrTooLarge, maxWindow)
	}
	return fmt.Errorf("%w: it is no whole %s: %w", ErrDamaged, compression, err)
}

// bounded reads content to its end, unless it is larger than it may be.
func bounded(from io.Reader, stored *storedReader, compression string) ([]byte, error) {
	var content bytes.Buffer
	for {
		n, err := io.CopyN(&content, from, freeRatio)
		switch {
		case content.Len() > MaxSize:
			return nil, fmt.Errorf("%w: its content has more than %d bytes", ErrTooLarge, MaxSize)
		case content.Len() > freeRatio && content.Len()/MaxRatio > stored.size:
			return nil, fmt.Errorf("%w: its content is more than %d times as large as what is stored", ErrTooLarge,
				MaxRatio)
		case errors.Is(err, io.EOF) && n < freeRatio:
			return content.Bytes(), nil
		case err != nil:
			return nil, damaged(compression, err)
		}
	}
}
