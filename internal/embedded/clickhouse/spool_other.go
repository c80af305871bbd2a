//go:build !linux

package clickhouse

import (
	"errors"
	"os"
)

func memoryFile() (*os.File, error) { return nil, errors.ErrUnsupported }
