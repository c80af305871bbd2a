package set

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is a set in a folder, which is made when it is missing, for this user alone.
type Folder string

// String names the target.
func (f Folder) String() string { return string(f) }

// Empty implements Target.
func (f Folder) Empty(context.Context) (bool, error) {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}

// Create implements Target. The file has another name until it is whole and synced.
func (f Folder) Create(_ context.Context, name string) (io.WriteCloser, error) {
	path := filepath.Join(string(f), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &draft{file, path, string(f)}, nil
}

// Open implements Target. A name cannot lead out of the folder.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, fs.ErrNotExist
	}
	return os.Open(filepath.Join(string(f), filepath.FromSlash(name)))
}

// Remove implements Target.
func (f Folder) Remove(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(f), filepath.FromSlash(name)))
}

// draft is a file that is not whole yet.
type draft struct {
	*os.File
	path, root string
}

// Close syncs the file and gives it its name, and syncs the folders.
func (d *draft) Close() error {
	if err := errors.Join(d.Sync(), d.File.Close()); err != nil {
		return err
	}
	if err := os.Rename(d.path+".part", d.path); err != nil {
		return err
	}
	return errors.Join(syncFolder(filepath.Dir(d.path)), syncFolder(d.root))
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
