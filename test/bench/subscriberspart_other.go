//go:build !linux

package main

import (
	"context"
	"errors"
)

func (*subscribers) receive(context.Context, []uint64) error {
	return errors.New("many subscribers need Linux")
}
