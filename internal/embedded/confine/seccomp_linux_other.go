//go:build linux && !amd64 && !arm64

package confine

import "errors"

var errNoFilter = errors.New("no filter of system calls for this processor")

func filterCalls(Rules) error { return errNoFilter }

// ForbidPrograms is not possible on this processor.
func ForbidPrograms() error { return errNoFilter }
