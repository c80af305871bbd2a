//go:build !linux

package child

import "errors"

func lowerPriority(int, string) (int, error) { return 0, errors.ErrUnsupported }
