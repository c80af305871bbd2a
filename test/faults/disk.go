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

// errNoDisks says why faults of disks are left out.
var errNoDisks = errors.New(
	"disks of their own can't be mounted here (it takes root on Linux, loop devices and mkfs.ext4)",
)

// disk is a small file system for one folder, that can be full, and lose its
// power.
type disk struct {
	path   string
	device *os.File // which is in memory, and gone when it is closed
}

// ballast is the file that takes the room of a full disk.
const ballast = "ballast"

// fill takes all room that is left but for some bytes, and returns what gives
// it back.
func (d *disk) fill(spare int64) (end func() error, err error) {
	f, err := os.Create(filepath.Join(d.path, ballast))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	end = func() error { return os.Remove(f.Name()) }
	// Who writes at this moment takes some of it meanwhile.
	for size, piece := int64(0), int64(1<<40); piece > 0; {
		room, err := d.room()
		if err != nil {
			return end, fmt.Errorf("fill %s: %w", d.path, err)
		}
		piece = min(piece, room-spare)
		switch err := allocate(f, size, piece); {
		case piece <= 0:
			return end, nil
		case errors.Is(err, syscall.ENOSPC):
			piece /= 2
		case err != nil:
			return end, fmt.Errorf("fill %s: %w", d.path, err)
		default:
			size += piece
		}
	}
	return end, nil
}

// room is how many bytes are free.
func (d *disk) room() (int64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(d.path, &s)
	return int64(s.Bavail) * int64(s.Bsize), err
}

// remove unmounts the disk, and what was on it is gone.
func (d *disk) remove() error { return errors.Join(unmount(d.path, false), d.device.Close()) }

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
