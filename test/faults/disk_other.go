//go:build !linux

package main

func withOwnMounts() (status int, done bool) { return 0, false }

func canMount() bool { return false }

func (d *disk) mount(int64, bool) error { return errNoDisks }

func unmount(string) error { return errNoDisks }
