//go:build unix && !linux

package postgres

// postmaster and disown leave it to Postgres to judge its earlier process.

func postmaster(int, string) bool             { return false }
func (s *Server) disown(string, []byte) error { return nil }
