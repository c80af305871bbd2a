package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/child"
)

// prepare brings the folder to where Postgres can start on it, and returns the
// password.
func (s *Server) prepare(ctx context.Context) (password string, err error) {
	if err := makeDir(s.config.Dir); err != nil {
		return "", fmt.Errorf("make its folder: %w", err)
	}
	if s.identity, err = s.identify(ctx, &s.config); err != nil {
		return "", err
	}
	version, err := os.ReadFile(filepath.Join(s.config.data(), "PG_VERSION"))
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return "", fmt.Errorf("read the version of the data: %w", err)
	}
	if has := strings.TrimSpace(string(version)); !fresh && has != s.identity.major {
		return "", fmt.Errorf("%s holds data of Postgres %s, and this is Postgres %s: dump it with the release that "+
			"wrote it, or set MILLRACE_DATA to another folder",
			s.config.data(), has, s.identity.major)
	}
	if password, err = s.password(fresh); err != nil {
		return "", err
	}
	if err := s.writeAccess(); err != nil {
		return "", err
	}
	if fresh {
		return password, s.initialize(ctx)
	}
	return password, nil
}

// makeDir makes a private folder below ones that others may enter: Postgres may
// have to run as another user.
func makeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// password reads the password, or makes one for a fresh folder.
func (s *Server) password(fresh bool) (string, error) {
	path := s.config.passwordFile()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !fresh {
		return "", fmt.Errorf("%s is missing, without which nobody can log in: put it back", path)
	}
	return s.keptPassword(path)
}

// keptPassword reads a password that was made before, or makes one.
func (s *Server) keptPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read a password: %w", err)
	}
	made := rand.Text()
	if err := s.write(path, made+"\n"); err != nil {
		return "", fmt.Errorf("keep a password: %w", err)
	}
	return made, nil
}

// writeAccess writes who may connect from where: with a password always, from
// other machines only when the server listens for them, and nobody as the owner
// of the cluster.
func (s *Server) writeAccess() error {
	nobody := "host all " + superuser + " all reject\n"
	rules := "host all all 127.0.0.1/32 scram-sha-256\nhost all all ::1/128 scram-sha-256\n"
	if !loopback(s.host) {
		rules = "host all all all scram-sha-256\n"
	}
	if err := s.write(s.config.accessFile(), nobody+rules); err != nil {
		return fmt.Errorf("write who may connect: %w", err)
	}
	return nil
}

// write writes a file that Postgres, whoever it runs as, can read alone, and
// syncs it: the data, which has no use without its password, is synced too.
func (s *Server) write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, s.identity.give(path), f.Sync(), f.Close())
}

// initialize makes the data folder.
func (s *Server) initialize(ctx context.Context) error {
	data, draft := s.config.data(), s.config.data()+".new"
	if entries, err := os.ReadDir(data); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s holds something other than Postgres data: set MILLRACE_DATA to another folder", data)
	}
	// What an earlier start that was cut short has left.
	if err := errors.Join(os.RemoveAll(draft), os.RemoveAll(data)); err != nil {
		return fmt.Errorf("clear its folder: %w", err)
	}
	_, err := child.Exec(ctx, child.Config{
		Name: "initdb", Path: s.config.program("initdb"),
		Args: []string{
			"-D", draft, "--username=" + superuser, "--auth=reject", // see writeAccess
			// The collation of the server itself: the same on every system, for ever.
			"--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
			"--data-checksums", "--no-instructions",
		},
		Env: environment(), Dir: s.config.Dir, Attr: s.identity.attr,
	})
	if err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := os.Rename(draft, data); err != nil {
		return fmt.Errorf("move the data folder into place: %w", err)
	}
	return syncDir(s.config.Dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
