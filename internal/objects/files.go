package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/millrace-io/millrace/schemas/object"
)

// Files holds objects as files below a folder, whose folders are the buckets. Opening a
// link that leads out of its bucket is an error.
type Files struct{ root *os.Root }

// OpenFiles opens the storage below a folder.
func OpenFiles(folder string) (*Files, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open the folder of objects: %w", err)
	}
	return &Files{root}, nil
}

// Close releases the folder.
func (f *Files) Close() error { return f.root.Close() }

// Open implements Storage.
func (f *Files) Open(_ context.Context, o object.Name) (Object, error) {
	bucket, err := f.root.OpenRoot(o.Bucket)
	if err != nil {
		return nil, missingFile(err)
	}
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	file, err := bucket.OpenFile(filepath.FromSlash(o.Key), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(missingFile(err), bucket.Close())
	}
	at, err := file.Stat()
	if err == nil && !at.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is no regular file", ErrMissing)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), bucket.Close())
	}
	return &openFile{file, bucket, at}, nil
}

// missingFile returns ErrMissing for errors that stay until somebody stores another file: the file is absent, its name is too
// long, or it is a link that leads nowhere or out of the bucket. For a link out of the bucket, os.Root returns an error that is
// no syscall.Errno.
func missingFile(err error) error {
	var system syscall.Errno
	if !errors.As(err, &system) {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	switch system {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.ENXIO:
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return err
}

type openFile struct {
	*os.File
	bucket *os.Root
	opened fs.FileInfo
}

// Changed implements Object: a file that was written to meanwhile may have been read in
// parts of several versions. One that was replaced by another was read as it was.
func (f *openFile) Changed(context.Context) (bool, error) {
	now, err := f.Stat()
	if err != nil {
		return false, err
	}
	return now.Size() != f.opened.Size() || !now.ModTime().Equal(f.opened.ModTime()), nil
}

// Metadata implements Object.
func (f *openFile) Metadata() map[string]string { return nil }

// Size implements Object.
func (f *openFile) Size() int64 { return f.opened.Size() }

func (f *openFile) Close() error { return errors.Join(f.File.Close(), f.bucket.Close()) }
