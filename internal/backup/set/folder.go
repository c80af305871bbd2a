package set

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
	return &draft{file: file, path: path, root: string(f)}, nil
}

// Claim implements Target.
func (f Folder) Claim(_ context.Context, name string) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(string(f), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// Open implements Target. A name cannot lead out of the folder.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, fs.ErrNotExist
	}
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	file, err := os.OpenFile(filepath.Join(string(f), filepath.FromSlash(name)), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	at, err := file.Stat()
	if err == nil && !at.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Remove implements Target.
func (f Folder) Remove(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(f), filepath.FromSlash(name)))
}

// draft is a file that is not whole yet.
type draft struct {
	file       *os.File
	path, root string
	failed     bool
}

// Write implements io.Writer.
func (d *draft) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	d.failed = d.failed || err != nil
	return n, err
}

// Close syncs the file and gives it its name, and syncs the folders. What could not be written whole gets no name.
func (d *draft) Close() error {
	if d.failed {
		return errors.Join(d.file.Close(), os.Remove(d.path+".part"))
	}
	if err := errors.Join(d.file.Sync(), d.file.Close()); err != nil {
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
