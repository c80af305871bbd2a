package uploads

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/object"
)

// exportBucket has exports, all of which are compressed before they are stored: the server of NATS, which may be part of
// this process, compresses nothing there.
const exportBucket = "_exports_packed"

// exported is what an attempt to make an export stores, and the id of its chunks. A text is stored as zstd, while its file
// is handed out as it is.
func exported(e Export, attempt int32) (o object.Name, id string) {
	id = fmt.Sprintf("%s-%d", e.ID, attempt)
	o = object.Name{Bucket: exportBucket, Key: id}
	if e.isText() {
		o.Key += packedSuffix
	}
	return o, id
}

const packedSuffix = ".zst"

// earlier are the objects that earlier versions have stored instead.
func earlier(id string) []object.Name {
	key := "exports/" + id
	return []object.Name{{Bucket: bucket, Key: key + packedSuffix}, {Bucket: bucket, Key: key}}
}

// isText tells of a format whose files zstd makes smaller.
func (e Export) isText() bool { return e.Format == "csv" || e.Format == "ndjson" }

// packedWindow is how far back zstd looks, in bytes. It is what both sides hold.
const packedWindow = 1 << 20

// PutExport stores the file of an attempt to make an export, of at most limit bytes. What it returns is of the file as it
// is handed out. After an error, the caller has reads of from end.
func (f *Files) PutExport(ctx context.Context, e Export, limit int64, from io.Reader) (objects.Stored, error) {
	o, id := exported(e, e.Attempts)
	if !e.isText() {
		return f.storage.PutAs(ctx, o, id, limit, from)
	}
	plain := &measured{from: from, limit: limit, sum: sha256.New()}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(pack(w, plain)) }()
	stored, err := f.storage.PutAs(ctx, o, id, limit+limit/64+packedWindow, r) // noise becomes no smaller
	_ = r.Close()
	if err != nil {
		return stored, err
	}
	stored.Size = plain.size
	plain.sum.Sum(stored.SHA256[:0])
	return stored, nil
}

func pack(to io.Writer, from io.Reader) error {
	out, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(packedWindow))
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, from); err != nil {
		return err // what is written is not whole, and has no end
	}
	return out.Close()
}

// measured reads a file of at most limit bytes.
type measured struct {
	from        io.Reader
	limit, size int64
	sum         hash.Hash
}

// Read implements io.Reader.
func (m *measured) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	_, _ = m.sum.Write(p[:n]) // it never fails
	if m.size += int64(n); m.size > m.limit {
		return 0, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, m.limit)
	}
	return n, err
}

// OpenExport reads the file of an export that is DONE, as Open does.
func (f *Files) OpenExport(ctx context.Context, e Export) (io.ReadCloser, error) {
	o, id := exported(e, e.Attempts)
	what := "the export " + e.ID.String()
	from, err := f.open(ctx, what, o)
	for _, old := range earlier(id) {
		if !errors.Is(err, objects.ErrMissing) {
			break
		}
		o = old
		from, err = f.open(ctx, what, o)
	}
	if err != nil || !strings.HasSuffix(o.Key, packedSuffix) {
		return from, err
	}
	text, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(packedWindow))
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	return unpacking{text, from}, nil
}

type unpacking struct {
	*zstd.Decoder
	from io.Closer
}

// Close implements io.Closer.
func (u unpacking) Close() error {
	u.Decoder.Close()
	return u.from.Close()
}

// RemoveExport deletes what the first attempts to make an export have stored.
func (f *Files) RemoveExport(ctx context.Context, e Export, attempts int32) error {
	for n := range attempts {
		o, id := exported(e, n+1)
		for _, stored := range append(earlier(id), o) {
			if err := f.storage.Discard(ctx, stored, id); err != nil {
				return err
			}
		}
	}
	return nil
}
