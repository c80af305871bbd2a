package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/backup/set"
)

type restoreCmd struct {
	backupSource
	Data     string         `help:"Empty or missing folder that becomes the data folder of the installation, unless all servers are named." type:"path"`
	Check    bool           `help:"Compare the backup with its sums, and restore nothing."`
	Replicas int            `help:"Copies of each stream: 1, or 3 on a cluster." env:"MILLRACE_NATS_REPLICAS" name:"nats-replicas" default:"1" group:"Streams"`
	Engines  engineSettings `embed:"" group:"Engines"`
	Shared   sharedSettings `embed:"" group:"Servers to use instead of embedded ones"`
	S3       backupS3       `embed:"" group:"Backups in S3"`
}

// Run makes an installation of a backup.
func (c *restoreCmd) Run(p *program) error {
	begun := time.Now()
	target, r, err := c.open(p, "restore", c.S3, c.Shared)
	if err != nil {
		return err
	}
	if c.Check {
		_, err = fmt.Fprintf(p.out, "backup %s: %d files, %d bytes, %d events, taken %s by millrace %s: whole\n", target,
			len(r.Files), r.Bytes(), backup.Events(&r.Manifest), r.Begun.Format(time.RFC3339), r.Millrace)
		return err
	}
	if err := c.restore(p, r); err != nil {
		advice := "run it again, which begins anew"
		if !c.toServers(r) {
			advice = "remove the folder, and restore again"
		}
		return p.interrupted(fmt.Errorf("restore from %s: %w", target, err), advice)
	}
	_, err = fmt.Fprintf(p.out, "restored %s, %d events, in %s\n", target, backup.Events(&r.Manifest),
		time.Since(begun).Round(time.Millisecond))
	return err
}

// restore restores to engines in the data folder, or to the servers that are named.
func (c *restoreCmd) restore(p *program, r *set.Reader) (err error) {
	up := &upCmd{Data: c.Data, Engines: c.Engines, Shared: c.Shared}
	to := func(in backup.Installation) error { return backup.Restore(p.ctx, in, r, c.Replicas) }
	if c.toServers(r) {
		return c.Shared.withServers(p, c.Data, to)
	}
	unlock, err := c.claim()
	if err != nil {
		return err
	}
	defer unlock()
	if err := up.withEngines(p, to); err != nil {
		return err
	}
	return c.release()
}

// toServers tells whether all stores of a set go to servers that are named.
func (c *restoreCmd) toServers(r *set.Reader) bool {
	return c.Shared.NATS != "" && c.Shared.ClickHouse != "" && (c.Shared.Postgres != "" || !backup.HasPostgres(r))
}

// withServers does something with the servers that are named. The data folder may have the login on NATS.
func (s sharedSettings) withServers(p *program, data string, do func(backup.Installation) error) error {
	ch, err := s.clickhouseOptions()
	if err != nil {
		return err
	}
	nc, err := s.NATSLogin.connect(p.ctx, s.NATS, data, p.log)
	if err != nil {
		return err
	}
	defer nc.Close()
	return do(backup.Installation{NATS: nc, ClickHouse: ch, Postgres: s.Postgres, Log: p.log})
}

// withEngines does something with the engines of the data folder, while nothing else runs. All that is written is on
// disk when it returns without an error.
func (c *upCmd) withEngines(p *program, do func(backup.Installation) error) (err error) {
	if err := c.Engines.ClickHouse.check(); err != nil {
		return err
	}
	if c.Engines.NATSSync == 0 {
		c.Engines.NATSSync = time.Minute // all is synced at the end
	}
	if c.Shared.ClickHouse == "" {
		if err := c.Engines.ClickHouse.complete(c.Data); err != nil {
			return err
		}
	}
	s := newStack(p.log)
	defer func() {
		err = errors.Join(err, s.stop(p.hurry, err))
		unix.Sync()
	}()
	e, err := c.startEngines(p, s)
	if err != nil {
		return err
	}
	nc, err := e.connect(p, c)
	if err != nil {
		return err
	}
	defer nc.Close()
	return do(backup.Installation{NATS: nc, ClickHouse: e.clickhouse, Postgres: e.postgres(), Log: p.log})
}

// restoringFile marks a data folder whose restore has not ended: no program may use it.
const restoringFile = "RESTORING"

// claim takes an empty folder for the restore.
func (c *restoreCmd) claim() (unlock func(), err error) {
	if c.Data == "" {
		return nil, errors.New("name an empty folder by --data, or servers by MILLRACE_NATS_URL, MILLRACE_CLICKHOUSE_DSN " +
			"and MILLRACE_POSTGRES_DSN")
	}
	entries, err := os.ReadDir(c.Data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("the folder %s is not empty: name an empty one by --data", c.Data)
	}
	if unlock, err = lockData(c.Data, ownEvents); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.Data, restoringFile), nil, 0o600); err != nil {
		unlock()
		return nil, fmt.Errorf("mark the data folder: %w", err)
	}
	return unlock, nil
}

// release has others use the folder.
func (c *restoreCmd) release() error {
	if err := os.Remove(filepath.Join(c.Data, restoringFile)); err != nil {
		return fmt.Errorf("the data folder stays marked: %w", err)
	}
	return nil
}

// whole returns an error for a data folder whose restore has not ended.
func whole(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, restoringFile)); err != nil {
		return nil // it is not there, or the folder shows soon what is wrong with it
	}
	return fmt.Errorf("a restore into the data folder %s has not ended: remove the folder, and restore again", dir)
}
