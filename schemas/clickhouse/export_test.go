package clickhouse

import "io/fs"

// Rendered returns the migrations as a topology needs them, for tests.
func Rendered(t Topology) (fs.FS, error) {
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	return t.render(dir)
}

// RenderFile rewrites one migration, for tests.
func RenderFile(t Topology, text string) (string, error) { return t.renderFile(text) }
