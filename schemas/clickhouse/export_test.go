package clickhouse

import "io/fs"

// Rendered returns the migrations as a layout runs them, for tests.
func Rendered(l Layout) (fs.FS, error) {
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	return l.render(dir)
}

// RenderFile rewrites one migration, for tests.
func RenderFile(l Layout, text string) (string, error) { return l.renderFile(text) }
