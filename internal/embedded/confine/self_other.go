//go:build !linux

package confine

import "os"

// Self is the executable of this process.
func Self() (string, error) { return os.Executable() }
