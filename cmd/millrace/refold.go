package main

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/backup"
)

type refoldCmd struct {
	backupSource
	Data    string         `help:"Data folder of the installation, unless its servers are named." env:"MILLRACE_DATA" default:"./data"`
	Engines engineSettings `embed:"" group:"Engines"`
	Shared  sharedSettings `embed:"" group:"Servers to use instead of embedded ones"`
	S3      backupS3       `embed:"" group:"Backups in S3"`
}

// Run makes ClickHouse anew of an older backup, and has projectors fold again what has come since.
func (c *refoldCmd) Run(p *program) error {
	target, r, err := c.open(p, "refold", c.S3, c.Shared)
	if err != nil {
		return err
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
