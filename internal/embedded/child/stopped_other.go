//go:build !linux

package child

// Stopped is known on Linux alone.
func Stopped(int) bool { return false }
