//go:build !linux || !amd64

package main

import (
	"os/exec"
	"time"
)

func (c *clock) startMoved(*exec.Cmd) error { return errNoClocks }

func (c *clock) set() error { return errNoClocks }

func follow(int, time.Duration) error { return errNoClocks }

func gone(error) bool { return false }
