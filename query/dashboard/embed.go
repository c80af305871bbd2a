// Package dashboard holds the web page, built into the binary.
//
// The page is the Vite application of this folder. Its build lands in dist, which is not committed: a binary built
// without it is complete but for the page, and says so where the page would be.
package dashboard

import (
	"embed"
	"io/fs"
)

// The all: prefix takes in dist/.gitkeep, so that the package compiles before the page is built.
//
//go:embed all:dist
var built embed.FS

// FS returns the files of the built page: index.html, docs.html and their assets.
func FS() (fs.FS, error) {
	return fs.Sub(built, "dist")
}
