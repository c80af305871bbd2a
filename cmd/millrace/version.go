package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// version is set by the linker. What go install builds of a release has its version in the build info.
var version string

func init() {
	if version != "" {
		return
	}
	version = "dev"
	// A build in a clone has the commit there, which about tells.
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Sum != "" {
		version = info.Main.Version
	}
}

// about is the version, the commit that was built, and what built it.
func about() string {
	text := "millrace " + version
	if commit := commit(); commit != "" {
		text += " (" + commit + ")"
	}
	return fmt.Sprintf("%s, %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is what the Go command has noted of the repository; empty: nothing.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	vcs := map[string]string{}
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	text := vcs["vcs.revision"]
	if text != "" {
		text = fmt.Sprintf("commit %.12s", text)
	}
	if text != "" && vcs["vcs.modified"] == "true" {
		text += ", changed"
	}
	return text
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(p *program) error {
	_, err := fmt.Fprintln(p.out, about())
	return err
}

// versionFlag is --version, which stands without a command, as --help does.
type versionFlag bool

// BeforeReset implements kong.BeforeReset.
func (versionFlag) BeforeReset(program *kong.Kong) error {
	if _, err := fmt.Fprintln(program.Stdout, about()); err != nil {
		return err
	}
	program.Exit(0)
	return nil
}
