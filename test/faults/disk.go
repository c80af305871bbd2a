package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// errNoDisks says why faults that fill disks are left out.
var errNoDisks = errors.New("disks of their own can't be mounted here (it takes root on Linux)")

// disk is a small file system for one folder, that can be full.
type disk struct {
	path string
	size int64
}

// newDisk mounts an empty one on a folder, which it makes.
func newDisk(path string, size int64) (*disk, error) {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return nil, err
	}
	d := &disk{path: path, size: size}
	return d, d.mount(size, false)
}

// fill takes all room that is left but for some bytes, and returns what gives
// it back.
func (d *disk) fill(spare int64) (end func() error, err error) {
	// Who writes at this moment may take what is about to be too small a size.
	for range 50 {
		var used int64
		if used, err = d.used(); err != nil {
			break
		}
		if err = d.mount(used+spare, true); err == nil {
			return func() error { return d.mount(d.size, true) }, nil
		}
	}
	return nil, fmt.Errorf("fill %s: %w", d.path, err)
}

func (d *disk) used() (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.path, &s); err != nil {
		return 0, err
	}
	return max(int64(s.Blocks-s.Bfree), 1) * int64(s.Bsize), nil
}

// remove unmounts the disk.
func (d *disk) remove() error { return unmount(d.path) }

// keep copies what is there to a folder beside it that outlives the disk.
func (d *disk) keep() error { return copyTree(d.path+".kept", d.path) }

func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case e.Type().IsRegular():
			return copyFile(target, path)
		}
		return nil
	})
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
