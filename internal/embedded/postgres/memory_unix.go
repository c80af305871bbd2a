//go:build unix && !linux

package postgres

// sharedMemory leaves the choice to Postgres: this system allows little of any
// other kind.
func sharedMemory() []string { return nil }
