//go:build !unix

package spool

// lock does nothing where files cannot be held: there, one process at a time
// is the caller's to see to.
func lock(string) (unlock func() error, err error) { return func() error { return nil }, nil }
