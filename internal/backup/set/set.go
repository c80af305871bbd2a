// Package set is the form of a backup: files, and a manifest that names each of them with its size and its
// SHA-256. The manifest is written last and in one step, so a set without one is a backup that did not end. It
// has a sum of its own, so nothing in a set can change without being noticed.
package set

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/schemas/instant"
)

// Formats of sets, all of which this release reads.
const (
	formatWhole = 1
	formatBased = 2 // some of its files are in other sets
)

// manifestName is the file that is written last.
const manifestName = "manifest.json"

// claimName is the file that the place of a set has until its manifest is written, so that no two backups write there.
const claimName = "INCOMPLETE"

// maxManifest bounds the manifest, in bytes.
const maxManifest = 64 << 20

// Target is where a set is: a folder, or a bucket of S3.
type Target interface {
	// Create returns a file that is in the target, and durable, after Close has succeeded.
	Create(ctx context.Context, name string) (io.WriteCloser, error)
	// Open returns fs.ErrNotExist for a file that is not there.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Empty tells whether the target has no files.
	Empty(ctx context.Context) (bool, error)
	// Claim makes an empty file, and returns fs.ErrExist where it is there already: of several callers one succeeds.
	Claim(ctx context.Context, name string) error
	// Remove removes a file that is there.
	Remove(ctx context.Context, name string) error
	String() string
}

// File is one file of a set.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Base   string `json:"base,omitempty"` // the sum of the set that has it; empty: this one
}

// Base is another set, which has files of this one.
type Base struct {
	Sum   string `json:"sum"`   // of its manifest
	Place string `json:"place"` // where it was; a folder's path is from this set's folder
}

// Manifest says what a set has.
type Manifest struct {
	Format   int          `json:"format"`
	Millrace string       `json:"millrace"` // the version that made the set
	Begun    instant.Time `json:"begun"`    // everything acknowledged before is in the set
	Ended    instant.Time `json:"ended"`
	// Stores is what each store needs to know of its files, by its name.
	Stores map[string]json.RawMessage `json:"stores"`
	Files  []File                     `json:"files"`
	Bases  []Base                     `json:"bases,omitempty"`
	Sum    string                     `json:"sum"` // SHA-256 of the manifest without it
}

func now() instant.Time { return instant.New(time.Now().Truncate(time.Millisecond)) }

// Bytes is the size of the set without its manifest, and without what other sets have.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		if f.Base == "" {
			n += f.Bytes
		}
	}
	return n
}

func (m *Manifest) sum() (string, error) {
	plain := *m
	plain.Sum = ""
	text, err := json.Marshal(plain)
	if err != nil {
		return "", fmt.Errorf("write the manifest: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Writer writes a set. It is safe for concurrent use.
type Writer struct {
	target Target
	base   *Reader // nil: the set is whole

	mu       sync.Mutex
	manifest Manifest
}

// Create begins a set. The target must be empty. With a base, files that are in it are not written again.
func Create(ctx context.Context, target Target, version string, base *Reader) (*Writer, error) {
	empty, err := target.Empty(ctx)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", target, err)
	}
	if !empty {
		return nil, notEmpty(target)
	}
	if err := claim(ctx, target); err != nil {
		return nil, err
	}
	return &Writer{target: target, base: base, manifest: Manifest{
		Format: formatWhole, Millrace: version, Begun: now(), Stores: map[string]json.RawMessage{},
	}}, nil
}

func notEmpty(target Target) error {
	return fmt.Errorf("%s is not empty: name an empty place for the backup", target)
}

// claim takes an empty place, unless another backup has taken it since.
func claim(ctx context.Context, target Target) error {
	err := target.Claim(ctx, claimName)
	if errors.Is(err, fs.ErrExist) {
		return notEmpty(target)
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", target, err)
	}
	f, err := target.Open(ctx, manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil { // the other one has ended already
		err = errors.Join(notEmpty(target), f.Close())
	}
	return errors.Join(err, target.Remove(ctx, claimName))
}

// Write makes a file of the set. When write fails, or is to be tried again, the file is not part of the set.
func (w *Writer) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	f, err := w.target.Create(ctx, name)
	if err != nil {
		return fmt.Errorf("write %s of the backup: %w", name, err)
	}
	c := &counted{to: f, sum: sha256.New()}
	if err := errors.Join(write(c), f.Close()); err != nil {
		return fmt.Errorf("write %s of the backup: %w", name, err)
	}
	file := File{Name: name, Bytes: c.bytes, SHA256: hex.EncodeToString(c.sum.Sum(nil))}
	if w.base != nil && w.base.same(file) {
		if err := w.Refer(ctx, name); err != nil {
			return err
		}
		if err := w.target.Remove(ctx, name); err != nil {
			return fmt.Errorf("remove %s of the backup, which its base has: %w", name, err)
		}
		return nil
	}
	w.add(file)
	return nil
}

func (w *Writer) add(file File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manifest.Files = slices.DeleteFunc(w.manifest.Files, func(f File) bool { return f.Name == file.Name })
	w.manifest.Files = append(w.manifest.Files, file)
}

// Refer has a file of the base be part of the set.
func (w *Writer) Refer(ctx context.Context, name string) error {
	file, from, err := w.base.find(name)
	if err != nil {
		return err
	}
	f, err := from.target.Open(ctx, name)
	if err != nil {
		return fmt.Errorf("open %s of the base %s: %w", name, from.target, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("open %s of the base %s: %w", name, from.target, err)
	}
	file.Base = from.Sum
	w.add(file)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.manifest.Bases, func(b Base) bool { return b.Sum == from.Sum }) {
		w.manifest.Format = formatBased
		w.manifest.Bases = append(w.manifest.Bases, Base{from.Sum, placeFrom(w.target, from.target)})
	}
	return nil
}

// Note keeps what a store needs to know of its files.
func (w *Writer) Note(store string, info any) error {
	text, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manifest.Stores[store] = text
	return nil
}

// Finish writes the manifest, by which the set is one.
func (w *Writer) Finish(ctx context.Context) (*Manifest, error) {
	m := &w.manifest
	m.Ended = now()
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if m.Sum, err = m.sum(); err != nil {
		return nil, err
	}
	f, err := w.target.Create(ctx, manifestName)
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	e := json.NewEncoder(f)
	e.SetIndent("", "  ")
	if err := errors.Join(e.Encode(m), f.Close()); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	if err := w.target.Remove(ctx, claimName); err != nil {
		return nil, fmt.Errorf("the backup is whole, but for its file %s, which says that it is not: %w", claimName, err)
	}
	return m, nil
}

// counted sums up what is written.
type counted struct {
	to    io.Writer
	sum   hash.Hash
	bytes int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.sum.Write(p[:n])
	c.bytes += int64(n)
	return n, err
}
