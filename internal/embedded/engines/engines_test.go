package engines

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The engines that the tests of this repository run on are those of Default.
func TestDefaultFindsWhatTheMakefileInstalled(t *testing.T) {
	set, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		set.ClickHouse, filepath.Join(set.Postgres, "bin", "initdb"),
		filepath.Join(set.Postgres, "share"),
	} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestDirFollowsTheSetting(t *testing.T) {
	t.Setenv(EnvDir, "relative/folder")
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(dir) || !strings.HasSuffix(dir, "/relative/folder") {
		t.Errorf("Dir() = %s, want the setting as an absolute path", dir)
	}
	t.Setenv(EnvDir, "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	dir, err = Dir()
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := strings.CutPrefix(dir, "/cache/millrace/engines-"); !ok || len(name) != 12 {
		t.Errorf("Dir() = %s, want /cache/millrace/engines-<12 digits>", dir)
	}
}

func TestMissingEngineIsOneLineThatSaysWhatToDo(t *testing.T) {
	t.Setenv(EnvDir, t.TempDir())
	_, err := Default()
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("Default() = %v, want a MissingError", err)
	}
	for _, want := range []string{`run "millrace engines" (needs npm)`, "MILLRACE_CLICKHOUSE_DSN"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestUnpackagedPlatformNamesTheServerSetting(t *testing.T) {
	_, err := find(clickhouse("darwin", "arm64"))
	if err == nil || !strings.Contains(err.Error(), "darwin/arm64: set MILLRACE_CLICKHOUSE_DSN") {
		t.Errorf("find = %v", err)
	}
}

// Every package is locked to its version by hash, and to no registry.
func TestLockHasHashesAndNoRegistry(t *testing.T) {
	var m struct{ OptionalDependencies map[string]string }
	var l struct {
		Packages map[string]struct {
			Version, Integrity, Resolved string
			Optional                     bool
		}
	}
	if err := errors.Join(json.Unmarshal(manifest, &m), json.Unmarshal(lock, &l)); err != nil {
		t.Fatal(err)
	}
	for name, version := range m.OptionalDependencies {
		p := l.Packages["node_modules/"+name]
		if p.Version != version || !strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "" || !p.Optional {
			t.Errorf("%s@%s is locked as %+v", name, version, p)
		}
	}
	for _, platform := range [][2]string{
		{"linux", "amd64"},
		{"linux", "arm64"},
		{"darwin", "amd64"},
		{"darwin", "arm64"},
	} {
		for _, e := range []engine{clickhouse(platform[0], platform[1]), postgres(platform[0], platform[1])} {
			if e.pkg != "" && m.OptionalDependencies[e.pkg] == "" {
				t.Errorf("%s is not in package.json", e.pkg)
			}
		}
	}
}
