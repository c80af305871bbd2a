package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// postmaster tells whether the process serves the data folder: Postgres works in
// the folder that it serves. A process that has ended but was not waited for
// (the first process of a container rarely does) is in no folder any more.
func postmaster(pid int, data string) bool {
	at, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	if err != nil {
		return false
	}
	folder, err := filepath.EvalSymlinks(data)
	return err == nil && at == folder
}

// disown puts the number of this process in the place of the dead one's: Postgres
// takes the number of its parent for a stale one. The rest of the file stays. It
// names the shared memory by which Postgres finds out that backends of the dead
// server are still at work on the data, and to remove the file would be to start
// beside them.
func (s *Server) disown(path string, rest []byte) error {
	draft := filepath.Join(s.config.Dir, "postmaster.pid.new")
	if err := s.write(draft, strconv.Itoa(os.Getpid())+"\n"+string(rest)); err != nil {
		return fmt.Errorf("take over the process id of an earlier server: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("take over the process id of an earlier server: %w", err)
	}
	return nil
}
