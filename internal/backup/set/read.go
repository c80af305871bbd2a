package set

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// ErrDamaged is the error of a set that is not as it was written.
var ErrDamaged = errors.New("the backup is damaged or incomplete")

// Reader reads a set.
type Reader struct {
	Manifest
	target Target
}

// Open reads the manifest of a set.
func Open(ctx context.Context, target Target) (*Reader, error) {
	f, err := target.Open(ctx, manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s, which a backup writes last: take another backup", ErrDamaged, target,
			manifestName)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s of %s: %w", manifestName, target, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", manifestName, target, err)
	}
	r := &Reader{target: target}
	// A later format may have other fields, so it comes first.
	var form struct{ Format int }
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, manifestName, err)
	}
	if form.Format != Format {
		return nil, fmt.Errorf("the backup has format %d, and this release reads format %d: use the release that made it",
			form.Format, Format)
	}
	if err := json.Unmarshal(text, &r.Manifest); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, manifestName, err)
	}
	sum, err := r.sum()
	if err != nil {
		return nil, err
	}
	if sum != r.Sum {
		return nil, fmt.Errorf("%w: %s does not have the sum that it states", ErrDamaged, manifestName)
	}
	return r, nil
}

// Verify reads every file of the set, and names the first that is not as it was written.
func (r *Reader) Verify(ctx context.Context) error {
	for _, f := range r.Files {
		if err := r.Read(ctx, f.Name, func(from io.Reader) error {
			_, err := io.Copy(io.Discard, from)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Has tells whether the set has a file.
func (r *Reader) Has(name string) bool {
	return slices.ContainsFunc(r.Files, func(f File) bool { return f.Name == name })
}

// Info reads what a store has noted, and tells whether the set has the store.
func (r *Reader) Info(store string, into any) (bool, error) {
	text, ok := r.Stores[store]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("%w: %s: store %s: %w", ErrDamaged, manifestName, store, err)
	}
	return true, nil
}

// Read gives a file to read, and holds it to its size and sum, also where read does not read all of it.
func (r *Reader) Read(ctx context.Context, name string, read func(io.Reader) error) error {
	at := slices.IndexFunc(r.Files, func(f File) bool { return f.Name == name })
	if at < 0 {
		return fmt.Errorf("%w: %s is not in %s", ErrDamaged, name, manifestName)
	}
	want := r.Files[at]
	f, err := r.target.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	if err != nil {
		return fmt.Errorf("open %s of the backup: %w", name, err)
	}
	defer f.Close()
	sum := &counted{to: io.Discard, sum: sha256.New()}
	from := io.TeeReader(&interruptible{ctx, f}, sum)
	failed := read(from)
	if _, err := io.Copy(io.Discard, from); err != nil {
		return fmt.Errorf("read %s of the backup: %w", name, err)
	}
	if sum.bytes != want.Bytes {
		return fmt.Errorf("%w: %s has %d bytes, and %s says %d", ErrDamaged, name, sum.bytes, manifestName, want.Bytes)
	}
	if hex.EncodeToString(sum.sum.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%w: %s does not have the sum that %s states", ErrDamaged, name, manifestName)
	}
	if failed != nil {
		return fmt.Errorf("read %s of the backup: %w", name, failed)
	}
	return nil
}

// interruptible ends with a context.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
