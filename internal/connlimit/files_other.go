//go:build !unix

package connlimit

// Files returns how many files the process may have open.
func Files() int { return fewFiles }
