package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/schemas/object"
)

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, content []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(content, nil)
}

// noise does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	b[0] = '[' // and is neither gzip nor zstd
	return b
}

// folder is a storage in files, and a function that puts an object into its bucket.
func folder(t testing.TB) (files *Files, put func(key string, stored []byte)) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "crawls"), 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := OpenFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	return files, func(key string, stored []byte) {
		t.Helper()
		path := filepath.Join(dir, "crawls", key)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, stored, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func crawled(key string) object.Name { return object.Name{Bucket: "crawls", Key: key} }

// TestRead: content comes back as it was before compression, or there is one stated error.
func TestRead(t *testing.T) {
	files, put := folder(t)
	var content []byte
	for id := range 100_000 {
		content = fmt.Appendf(content, `{"id":"%d","fetch_status":"success"},`, id)
	}
	most, zeros := noise(MaxSize), make([]byte, MaxSize+1)
	twice := bytes.Repeat(noise(10_000), MaxSize/10_000+1) // it compresses by less than MaxRatio
	zip, zst := gzipped(t, content), zstandard(t, content)
	wrong := bytes.Clone(zip)
	wrong[len(wrong)-8] ^= 1 // its checksum
	wrongZst := bytes.Clone(zst)
	wrongZst[len(wrongZst)-1] ^= 1
	for name, c := range map[string]struct {
		stored, content []byte
		err             error
	}{
		"plain":           {content, content, nil},
		"nothing":         {nil, nil, nil},
		"one byte":        {[]byte{0x1f}, []byte{0x1f}, nil},
		"gzip":            {zip, content, nil},
		"two gzips":       {append(bytes.Clone(zip), zip...), append(bytes.Clone(content), content...), nil},
		"zstd":            {zst, content, nil},
		"two zstds":       {append(bytes.Clone(zst), zst...), append(bytes.Clone(content), content...), nil},
		"gzip of nothing": {gzipped(t, nil), nil, nil},
		"the largest":     {most, most, nil},

		"cut gzip":           {zip[:len(zip)/2], nil, ErrDamaged},
		"gzip without end":   {zip[:len(zip)-1], nil, ErrDamaged},
		"gzip's begin":       {zip[:2], nil, ErrDamaged},
		"gzip of wrong sum":  {wrong, nil, ErrDamaged},
		"gzip and more":      {append(bytes.Clone(zip), "more"...), nil, ErrDamaged},
		"cut zstd":           {zst[:len(zst)/2], nil, ErrDamaged},
		"zstd of wrong sum":  {wrongZst, nil, ErrDamaged},
		"too large":          {append(most, 0), nil, ErrTooLarge},
		"gzip of too much":   {gzipped(t, twice), nil, ErrTooLarge},
		"zeros by gzip":      {gzipped(t, zeros), nil, ErrTooLarge},
		"zeros by zstd":      {zstandard(t, zeros[:2<<20]), nil, ErrTooLarge},
		"few zeros by zstd":  {zstandard(t, zeros[:1<<20]), zeros[:1<<20], nil},
		"zstd of too much":   {zstandard(t, twice), nil, ErrTooLarge},
		"zstd looking afar":  {zstandard(t, noise(33<<20), zstd.WithWindowSize(32<<20)), nil, ErrTooLarge},
		"gzip within a gzip": {gzipped(t, zip), zip, nil},
	} {
		t.Run(name, func(t *testing.T) {
			put(name, c.stored)
			got, _, err := Read(t.Context(), files, crawled(name))
			if !errors.Is(err, c.err) || (c.err == nil) != (err == nil) || !bytes.Equal(got, c.content) {
				t.Errorf("%d bytes, %v; want %d bytes, %v", len(got), err, len(c.content), c.err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "read object crawls/"+name+": the object is ") {
				t.Errorf("the error is %q", err)
			}
		})
	}
}

// forced is an object whose reading goes as a test wants it.
type forced struct {
	read    func(ctx context.Context, p []byte) (int, error)
	changed bool
	ctx     context.Context
}

func (f *forced) Open(ctx context.Context, _ object.Name) (Object, error) {
	f.ctx = ctx
	return f, nil
}
func (f *forced) Read(p []byte) (int, error)            { return f.read(f.ctx, p) }
func (f *forced) Close() error                          { return nil }
func (f *forced) Changed(context.Context) (bool, error) { return f.changed, nil }

func (f *forced) Metadata() map[string]string { return nil }

func (f *forced) Size() int64 { return 0 }

// TestStorageFails: what a storage sends before it fails is never taken for all of it.
func TestStorageFails(t *testing.T) {
	broken := errors.New("connection reset")
	zip := gzipped(t, noise(100_000))
	part := func(of []byte, then error) func(context.Context, []byte) (int, error) {
		from := bytes.NewReader(of)
		return func(_ context.Context, p []byte) (int, error) {
			if n, err := from.Read(p); err == nil {
				return n, nil
			}
			return 0, then
		}
	}
	for name, c := range map[string]struct {
		f    forced
		want error
	}{
		"plain":     {forced{read: part([]byte("[1,2]"), broken)}, broken},
		"in a gzip": {forced{read: part(zip[:5000], broken)}, broken},
		"after it":  {forced{read: part(zip, broken)}, broken},
		"at once":   {forced{read: part(nil, broken)}, broken},
		"too short": {forced{read: part([]byte("[1,2]"), io.ErrUnexpectedEOF)}, io.ErrUnexpectedEOF},
		"wrong sum": {forced{read: part([]byte("[1,2]"), ErrDamaged)}, ErrDamaged},
		"replaced":  {forced{read: part([]byte("[1,2]"), io.EOF), changed: true}, ErrChanged},
		"and fails": {forced{read: part([]byte("[1,2]"), broken), changed: true}, ErrChanged},
	} {
		got, _, err := Read(t.Context(), &c.f, crawled("k"))
		if got != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v; want %v", name, got, err, c.want)
		}
	}
}

// TestStall: a storage that sends nothing is given up, and one that sends little is not.
func TestStall(t *testing.T) {
	silent := &forced{read: func(ctx context.Context, _ []byte) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}}
	if got, _, err := read(t.Context(), silent, crawled("k"), 10*time.Millisecond); got != nil || err == nil ||
		!strings.Contains(err.Error(), "sent nothing for 10ms") {
		t.Errorf("%q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := read(ctx, silent, crawled("k"), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	left := 5
	slow := &forced{read: func(ctx context.Context, p []byte) (int, error) {
		if left--; left == 0 {
			return 0, io.EOF
		}
		select {
		case <-time.After(50 * time.Millisecond):
			return copy(p, "1"), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}}
	if got, _, err := read(t.Context(), slow, crawled("k"), 10*time.Second); string(got) != "1111" || err != nil {
		t.Errorf("slow: %q, %v", got, err)
	}
}

// FuzzDecode holds that whatever bytes are stored, reading them ends within its bounds.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("[1]"))
	f.Add(gzipped(f, []byte("[1]")))
	f.Add(zstandard(f, []byte("[1]")))
	f.Fuzz(func(t *testing.T, stored []byte) {
		content, err := decode(&storedReader{from: bytes.NewReader(stored), alive: func() {}})
		if len(content) > MaxSize || (err != nil && content != nil) {
			t.Errorf("%d bytes, %v", len(content), err)
		}
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
	})
}
