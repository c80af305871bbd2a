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
	"path/filepath"
	"slices"
	"strings"
)

// ErrDamaged is the error of a set that is not as it was written.
var ErrDamaged = errors.New("the backup is damaged or incomplete")

// Reader reads a set.
type Reader struct {
	Manifest
	target Target
	bases  []*Reader
}

// Open reads the manifest of a set, and of those that have files of it. places returns where to look for a base, in
// turn.
func Open(ctx context.Context, target Target, places func(Base) ([]Target, error)) (*Reader, error) {
	r, err := open(ctx, target)
	if err != nil {
		return nil, err
	}
	for _, b := range r.Bases {
		base, err := openBase(ctx, b, places)
		if err != nil {
			return nil, fmt.Errorf("the backup %s has files in the base %s: %w", target, b.Place, err)
		}
		r.bases = append(r.bases, base)
	}
	return r, nil
}

// openBase opens a set by its sum.
func openBase(ctx context.Context, b Base, places func(Base) ([]Target, error)) (*Reader, error) {
	all, err := places(b)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, place := range all {
		r, err := open(ctx, place)
		if err == nil && r.Sum == b.Sum {
			return r, nil
		}
		if err == nil {
			err = fmt.Errorf("%w: %s is another backup", ErrDamaged, place)
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		failures = append(failures, fmt.Errorf("%w: it is not among the places that are named", ErrDamaged))
	}
	return nil, errors.Join(failures...)
}

// placeFrom is where a base is, as the manifest of the set at a target says it.
func placeFrom(target, base Target) string {
	from, inFolder := target.(Folder)
	to, isFolder := base.(Folder)
	if !inFolder || !isFolder {
		return base.String()
	}
	if path, err := relative(string(from), string(to)); err == nil {
		return path
	}
	return base.String()
}

func relative(from, to string) (string, error) {
	from, err := real(from)
	if err != nil {
		return "", err
	}
	if to, err = real(to); err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// real is the absolute path of a folder without links: a link such as "latest" leads elsewhere tomorrow.
func real(folder string) (string, error) {
	path, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// Within is a place that a manifest names, seen from where its set is.
func Within(target Target, place string) string {
	folder, ok := target.(Folder)
	if !ok || filepath.IsAbs(place) || strings.Contains(place, "://") {
		return place
	}
	at := string(folder)
	if path, err := real(at); err == nil {
		at = path
	}
	return filepath.Join(at, place)
}

// open reads the manifest of a set.
func open(ctx context.Context, target Target) (*Reader, error) {
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
	if form.Format != formatWhole && form.Format != formatBased {
		return nil, fmt.Errorf("the backup has format %d, and this release reads formats up to %d: use the release that "+
			"made it", form.Format, formatBased)
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
	want, has, err := r.find(name)
	if err != nil {
		return err
	}
	if has != r {
		if err := has.Read(ctx, name, read); err != nil {
			return fmt.Errorf("the base %s: %w", has.target, err)
		}
		return nil
	}
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

// find returns a file, and the set that has it.
func (r *Reader) find(name string) (file File, has *Reader, err error) {
	at := slices.IndexFunc(r.Files, func(f File) bool { return f.Name == name })
	if at < 0 {
		return file, nil, fmt.Errorf("%w: %s is not in %s", ErrDamaged, name, manifestName)
	}
	if file = r.Files[at]; file.Base == "" {
		return file, r, nil
	}
	for _, b := range r.bases {
		if b.Sum != file.Base {
			continue
		}
		own, has, err := b.find(name)
		if err == nil && (has != b || own.Bytes != file.Bytes || own.SHA256 != file.SHA256) {
			err = fmt.Errorf("%w: %s is another file in the base %s", ErrDamaged, name, b.target)
		}
		return file, b, err
	}
	return file, nil, fmt.Errorf("%w: %s is in a base that %s does not name", ErrDamaged, name, manifestName)
}

// same tells whether the set has a file with the same content.
func (r *Reader) same(f File) bool {
	own, _, err := r.find(f.Name)
	return err == nil && own.Bytes == f.Bytes && own.SHA256 == f.SHA256
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
