package work

import (
	"context"
)

func (t *term) readReports(ctx context.Context) error { <-ctx.Done(); return nil }
