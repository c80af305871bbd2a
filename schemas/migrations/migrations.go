// Package migrations has what the numbered migrations of all databases share.
package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// ErrNewerSchema is the error of a database that a newer release has migrated.
var ErrNewerSchema = errors.New("the schema is newer than this release")

// Numbers are the numbers of the migrations of this release, in order. They are files in the folder migrations.
func Numbers(files fs.FS) (all []int64, err error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		all = append(all, version)
	}
	return all, nil
}

// RefuseNewer returns ErrNewerSchema for a schema that this release does not know. The name is that of the database.
func RefuseNewer(ctx context.Context, name string, p *goose.Provider) error {
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read %s schema version: %w", name, err)
	}
	if current > target {
		return fmt.Errorf("%s schema version %d, this release knows up to %d: %w: install the newer release",
			name, current, target, ErrNewerSchema)
	}
	return nil
}

// Check returns ErrNewerSchema for a schema that this release does not know, and older for one that lacks migrations.
func Check(ctx context.Context, name string, p *goose.Provider, older error) error {
	if err := RefuseNewer(ctx, name, p); err != nil {
		return err
	}
	pending, err := p.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("read %s schema version: %w", name, err)
	}
	if pending {
		return older
	}
	return nil
}
