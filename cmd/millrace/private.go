package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// private has all files that this process and its children make belong to its
// user alone.
func private() { syscall.Umask(0o077) }

// makeDir makes the data folder. Root lets others pass through it, and through
// the folders above that are made with it, but not read: Postgres may run as one
// of them. A folder that is there stays as it is.
func makeDir(dir string) error {
	var made []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, at)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w: set MILLRACE_DATA to a folder that can be written", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	for _, at := range made {
		if err := os.Chmod(at, 0o711); err != nil {
			return fmt.Errorf("make the data folder: %w", err)
		}
	}
	return nil
}

// makePrivate makes a folder, and the ones above it, for this user alone.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder %s: %w", dir, err)
	}
	return nil
}

// closeFolders takes what others may do from the folders that earlier releases
// have made in the data folder.
func closeFolders(data string) error {
	for _, name := range []string{"clickhouse", "nats", "postgres", "projector"} {
		dir := filepath.Join(data, name)
		if err := os.Chmod(dir, 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("close %s to others: %w", dir, err)
		}
	}
	return nil
}

// keptPassword reads a password that was generated before, or generates one.
func keptPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if password := strings.TrimSpace(string(text)); err == nil && password != "" {
		return password, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read a password: %w", err)
	}
	password := rand.Text()
	if err := keepPassword(path, password); err != nil {
		return "", fmt.Errorf("keep a password: %w", err)
	}
	return password, nil
}

// keepPassword writes the file under another name first: it is whole or absent.
func keepPassword(path, password string) error {
	draft := path + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, password)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
