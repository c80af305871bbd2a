package set_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/internal/storagetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a set of two files and a note.
func write(t *testing.T, target set.Target) {
	t.Helper()
	ctx := t.Context()
	w, err := set.Create(ctx, target, "v1", nil)
	must(t, err)
	for name, text := range map[string]string{"a/one": "first", "two": strings.Repeat("second", 1000)} {
		must(t, w.Write(ctx, name, func(to io.Writer) error {
			_, err := io.WriteString(to, text)
			return err
		}))
	}
	must(t, w.Note("store", map[string]string{"says": "<&>"}))
	_, err = w.Finish(ctx)
	must(t, err)
}

func verify(ctx context.Context, target set.Target) error {
	r, err := set.Open(ctx, target, nil)
	if err != nil {
		return err
	}
	return r.Verify(ctx)
}

// TestSet: what was written is read, and a place with anything in it takes no set.
func TestSet(t *testing.T) {
	targets := map[string]set.Target{"folder": set.Folder(filepath.Join(t.TempDir(), "new"))}
	if url := storagetest.S3(t); url != "" {
		storagetest.Client(t, url, "backups")
		var err error
		targets["s3"], err = set.S3(set.S3Config{
			Endpoint: url, AccessKey: storagetest.User, SecretKey: storagetest.Password,
		}, "s3://backups/one")
		must(t, err)
	}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			if err := verify(t.Context(), target); !errors.Is(err, set.ErrDamaged) {
				t.Errorf("a place without a set: %v", err)
			}
			write(t, target)
			must(t, verify(t.Context(), target))
			r, err := set.Open(t.Context(), target, nil)
			must(t, err)
			var text bytes.Buffer
			must(t, r.Read(t.Context(), "a/one", func(from io.Reader) error {
				_, err := text.ReadFrom(from)
				return err
			}))
			var note map[string]string
			if there, err := r.Info("store", &note); !there || err != nil || note["says"] != "<&>" || text.String() != "first" {
				t.Errorf("%v, %v: %v, %q", there, err, note, &text)
			}
			if _, err := set.Create(t.Context(), target, "v1", nil); err == nil {
				t.Error("a set is written over another")
			}
		})
	}
}

// TestDamage: whatever byte of a set changes, or is missing, the set is refused, and the file is named.
func TestDamage(t *testing.T) {
	folder := t.TempDir()
	target := set.Folder(filepath.Join(folder, "set"))
	write(t, target)
	for _, name := range []string{"manifest.json", "a/one", "two"} {
		path := filepath.Join(string(target), name)
		whole, err := os.ReadFile(path)
		must(t, err)
		step := max(1, len(whole)/50)
		for at := 0; at < len(whole); at += step {
			for what, damaged := range map[string][]byte{
				"cut":    whole[:at],
				"flip":   append(append(bytes.Clone(whole[:at]), whole[at]^1), whole[at+1:]...),
				"longer": append(bytes.Clone(whole), 'x'),
			} {
				must(t, os.WriteFile(path, damaged, 0o600))
				err := verify(t.Context(), target)
				if name == "manifest.json" && bytes.Equal(bytes.TrimSpace(damaged), bytes.TrimSpace(whole)) {
					continue // blanks around it say nothing
				}
				if err == nil || !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), "format") {
					t.Fatalf("%s at %d of %s: %v", what, at, name, err)
				}
			}
		}
		must(t, os.Remove(path))
		if err := verify(t.Context(), target); !errors.Is(err, set.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
		must(t, os.WriteFile(path, whole, 0o600))
	}
	must(t, verify(t.Context(), target))
}

// TestTwoAtOnce: of several backups that begin in one place, one writes there, and its set is whole.
func TestTwoAtOnce(t *testing.T) {
	target := set.Folder(filepath.Join(t.TempDir(), "set"))
	var all sync.WaitGroup
	var begun atomic.Int32
	for range 8 {
		all.Go(func() {
			w, err := set.Create(t.Context(), target, "v1", nil)
			if err != nil {
				if !strings.Contains(err.Error(), "is not empty") {
					t.Error(err)
				}
				return
			}
			begun.Add(1)
			err = w.Write(t.Context(), "one", func(to io.Writer) error {
				_, err := io.WriteString(to, strings.Repeat("x", 1000))
				return err
			})
			if err == nil {
				_, err = w.Finish(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := begun.Load(); n != 1 {
		t.Errorf("%d backups were begun in one place", n)
	}
	must(t, verify(t.Context(), target))
	left, err := os.ReadDir(string(target))
	if must(t, err); len(left) != 2 {
		t.Errorf("the place has %v", left)
	}
}

// TestFullDisk: what cannot be written whole gets no name, also the manifest.
func TestFullDisk(t *testing.T) {
	folder := t.TempDir()
	must(t, os.Symlink("/dev/full", filepath.Join(folder, "manifest.json.part")))
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	f, err := set.Folder(folder).Create(t.Context(), "manifest.json")
	must(t, err)
	if _, err := io.WriteString(f, "{}"); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	must(t, f.Close())
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("the folder has %v: %v", left, err)
	}
}

// TestLinks: a set finds its base though a link led to it that leads elsewhere now, and though a link leads to the set.
func TestLinks(t *testing.T) {
	ctx, folder := t.Context(), t.TempDir()
	latest := filepath.Join(folder, "links", "latest")
	must(t, os.MkdirAll(filepath.Dir(latest), 0o700))
	monday := filepath.Join(folder, "monday")
	write(t, set.Folder(monday))
	must(t, os.Symlink(monday, latest))
	base, err := set.Open(ctx, set.Folder(latest), nil)
	must(t, err)
	tuesday := set.Folder(filepath.Join(folder, "tuesday"))
	w, err := set.Create(ctx, tuesday, "v1", base)
	must(t, err)
	must(t, w.Refer(ctx, "two"))
	_, err = w.Finish(ctx)
	must(t, err)
	must(t, os.Remove(latest))
	must(t, os.Symlink(string(tuesday), latest))
	for _, target := range []set.Target{tuesday, set.Folder(latest)} {
		r, err := set.Open(ctx, target, func(b set.Base) ([]set.Target, error) {
			return []set.Target{set.Folder(set.Within(target, b.Place))}, nil
		})
		if err == nil {
			err = r.Verify(ctx)
		}
		if err != nil {
			t.Errorf("the set at %s: %v", target, err)
		}
	}
}

// TestPipe: a pipe in the place of a file is refused, and not waited for.
func TestPipe(t *testing.T) {
	target := set.Folder(filepath.Join(t.TempDir(), "set"))
	write(t, target)
	path := filepath.Join(string(target), "two")
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o600))
	if err := verify(t.Context(), target); err == nil || !strings.Contains(err.Error(), "two") {
		t.Error(err)
	}
}
