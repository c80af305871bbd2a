package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// reclaim deals with the postmaster.pid that an earlier server may have left. One
// whose parent was just killed is given time to end. A file whose process is
// gone would do no harm, were its number not in use again, which is the rule in
// containers: Postgres would then refuse to start.
func (s *Server) reclaim(ctx context.Context) error {
	path := filepath.Join(s.config.data(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the process id of an earlier server: %w", err)
	}
	if len(text) == 0 {
		// Its writer ended before it had touched anything else.
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the empty process id file of an earlier server: %w", err)
		}
		return nil
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(first)))
	if err != nil || pid == 0 {
		return nil // Postgres says what is wrong with it
	}
	if pid < 0 { // of one in single-user mode, in which roles are made
		pid = -pid
	}
	if postmaster(pid, s.config.data()) {
		if err := s.awaitEnd(ctx, pid); err != nil {
			return err
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil // it has ended in order
		}
	}
	return s.disown(path, rest)
}

// awaitEnd waits for the postmaster of an earlier run to end.
func (s *Server) awaitEnd(ctx context.Context, pid int) error {
	s.log.Info("waiting for the Postgres of an earlier run to end", "pid", pid)
	limit := time.NewTimer(s.patience)
	defer limit.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for postmaster(pid, s.config.data()) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("another Postgres, process %d, runs on %s: stop what has started it, or the process "+
				"itself, and start again", pid, s.config.data())
		case <-again.C:
		}
	}
	return nil
}
