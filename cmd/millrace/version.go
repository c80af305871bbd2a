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

// commit is what the Go command has noted of the repository, in words; empty: nothing.
func commit() string {
	revision, changed := repository()
	switch {
	case revision == "":
		return ""
	case changed:
		return "commit " + revision + ", changed"
	}
	return "commit " + revision
}

// revision is the commit as a label: with -dirty where files had changed.
func revision() string {
	revision, changed := repository()
	if revision != "" && changed {
		revision += "-dirty"
	}
	return revision
}

// repository is what the Go command has noted of it: the commit, and whether files were
// changed since.
func repository() (revision string, changed bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = fmt.Sprintf("%.12s", s.Value)
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	return revision, changed
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
