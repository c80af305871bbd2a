package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/port"
)

// portPatience is how long a start waits for the child of an earlier millrace
// that was killed: it dies a moment after its parent.
const portPatience = 2 * time.Second

// checkFree makes sure that the addresses of the ClickHouse child are free. To
// ask whether the child answers is not enough: another server at its address
// would answer in its place, and have its tables migrated.
func (s clickhouseServer) checkFree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, portPatience)
	defer cancel()
	for _, a := range [...]struct{ setting, addr string }{
		{"MILLRACE_CLICKHOUSE_LISTEN", s.Listen}, {"MILLRACE_CLICKHOUSE_HTTP", s.HTTP},
	} {
		err := waitFree(ctx, a.addr)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return fmt.Errorf("embedded ClickHouse: %s is taken by another program: set %s to another address, or "+
				"MILLRACE_CLICKHOUSE_DSN to use a server of your own", a.addr, a.setting)
		case err != nil:
			return fmt.Errorf("embedded ClickHouse: cannot listen: set %s to another address: %w", a.setting, err)
		}
	}
	return nil
}

// waitFree returns nil once the address can be listened on, or why it could
// not when ctx ended.
func waitFree(ctx context.Context, addr string) error {
	for {
		_, err := port.Try(addr)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
