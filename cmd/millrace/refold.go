package main

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/backup"
)

type refoldCmd struct {
	From    string         `help:"Where the backup is: a folder, or s3://bucket/prefix." required:"" placeholder:"PLACE"`
	Base    []string       `help:"Where a base of the backup is, if not where it was. Repeat it for several." placeholder:"PLACE"`
	Data    string         `help:"Data folder of the installation, unless its servers are named." env:"MILLRACE_DATA" default:"./data"`
	Engines engineSettings `embed:"" group:"Engines"`
	Shared  sharedSettings `embed:"" group:"Servers to use instead of embedded ones"`
	S3      backupS3       `embed:"" group:"Backups in S3"`
}

// Run makes ClickHouse anew of an older backup, and has projectors fold again what has come since.
func (c *refoldCmd) Run(p *program) error {
	if c.Shared.Cluster != "" {
		return errClusterBackup
	}
	target, err := c.S3.target(c.From)
	if err != nil {
		return err
	}
	r, err := backup.Open(p.ctx, target, c.S3.places(target, c.Base))
	if err != nil {
		return fmt.Errorf("refold from %s: %w", target, err)
	}
	var after uint64
	refold := func(in backup.Installation) (err error) {
		after, err = backup.Refold(p.ctx, in, r)
		return err
	}
	up := &upCmd{Data: c.Data, Engines: c.Engines, Shared: c.Shared}
	if c.Shared.NATS != "" && c.Shared.ClickHouse != "" {
		err = c.Shared.withServers(p, c.Data, refold)
	} else {
		var unlock func()
		if unlock, err = lockData(c.Data, ownEvents); err == nil {
			defer unlock()
			err = up.withEngines(p, refold)
		}
	}
	if err != nil {
		return p.interrupted(fmt.Errorf("refold from %s: %w", target, err), "run it again, which begins anew")
	}
	_, err = fmt.Fprintf(p.out, "ClickHouse is as in %s, %d events; projectors fold what has come behind sequence %d when "+
		"they start\n", target, backup.Events(&r.Manifest), after)
	return err
}
