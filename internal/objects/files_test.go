package objects

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/object"
)

// TestFilesStayInTheirBucket: neither names nor links lead out of a bucket, and only regular
// files are objects.
func TestFilesStayInTheirBucket(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"outside", "root/crawls/folder", "root/other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(dir, "root")
	for _, f := range []string{"outside/secret", "root/secret", "root/other/secret", "root/crawls/a"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("[1]"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"within": "a", "out": "../../outside/secret", "absolute": filepath.Join(dir, "outside/secret"),
		"next": "../other/secret", "nextfolder": "../other", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(root, "crawls", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "outside"), filepath.Join(root, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "crawls", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := OpenFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for path, want := range map[[2]string]error{
		{"crawls", "a"}: nil, {"crawls", "within"}: nil,
		{"crawls", "b"}: ErrMissing, {"none", "a"}: ErrMissing, {"crawls", "a/b"}: ErrMissing,
		{"crawls", strings.Repeat("l", 300)}: ErrMissing, {"crawls", strings.Repeat("l/", 500) + "k"}: ErrMissing,
		{"crawls", "folder"}: ErrMissing, {"crawls", "pipe"}: ErrMissing,
		{"crawls", "../other/secret"}: ErrMissing, {"crawls", "/etc/passwd"}: ErrMissing, {"..", "outside/secret"}: ErrMissing,
		{"secret", "a"}: ErrMissing, {"crawls", ""}: ErrMissing,
		{"crawls", "out"}: ErrMissing, {"crawls", "absolute"}: ErrMissing, {"crawls", "next"}: ErrMissing,
		{"crawls", "nextfolder/secret"}: ErrMissing, {"crawls", "loop"}: ErrMissing, {"linked", "secret"}: ErrMissing,
	} {
		got, _, err := Read(t.Context(), files, object.Name{Bucket: path[0], Key: path[1]})
		switch {
		case want == nil && (err != nil || string(got) != "[1]"):
			t.Errorf("%q: %q, %v", path, got, err)
		case want != nil && (got != nil || !errors.Is(err, want)):
			t.Errorf("%q: %q, %v; want %v", path, got, err, want)
		}
	}
}

// TestFileChanges: a file that is written to while it is read is not taken; one that another
// takes the place of was read as it was.
func TestFileChanges(t *testing.T) {
	files, put := folder(t)
	path := filepath.Join(files.root.Name(), "crawls", "k")
	for name, c := range map[string]struct {
		change  func() error
		changed bool
	}{
		"nothing": {func() error { return nil }, false},
		"grows": {func() error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("more")
			return errors.Join(err, f.Close())
		}, true},
		"written over": {func() error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) }, true},
		"replaced": {func() error {
			put("l", []byte("[2]"))
			return os.Rename(filepath.Join(filepath.Dir(path), "l"), path)
		}, false},
		"deleted": {func() error { return os.Remove(path) }, false},
	} {
		put("k", []byte("[1]"))
		o, err := files.Open(t.Context(), crawled("k"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if changed, err := o.Changed(t.Context()); changed != c.changed || err != nil {
			t.Errorf("%s: changed is %v, %v", name, changed, err)
		}
		_ = o.Close()
	}
}
