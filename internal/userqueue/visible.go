package userqueue

import (
	"context"

	"github.com/millrace-io/millrace/internal/auth"
)

// Owners knows whose the items of private groups are.
type Owners interface {
	// Groups returns the private groups of a user in a queue.
	Groups(ctx context.Context, subject, queue string) ([]string, error)
}

// VisibleTo returns which items of a queue the caller may see: admins all, and others no private ones but their own.
func VisibleTo(ctx context.Context, owners Owners, queue string) (v Visible, err error) {
	caller := auth.CallerFrom(ctx)
	if caller.Has(auth.Admin) {
		return v, nil
	}
	v.Private = true
	v.Groups, err = owners.Groups(ctx, caller.Subject, queue)
	return v, err
}
