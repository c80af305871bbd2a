package engines

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// fakeNPM puts a script in npm's place: what npm does when it fails, is slow or
// leaves something out cannot be had from the real one.
func fakeNPM(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte("#!/bin/sh\nset -e\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
}

// lay is a script that makes the files of the engines, and counts its runs.
func lay(runs string) string {
	ch, pg := clickhouse(runtime.GOOS, runtime.GOARCH), postgres(runtime.GOOS, runtime.GOARCH)
	script := "echo run >>" + runs + "\nmkdir -p node_modules/" + pg.pkg + "/native/bin node_modules/" + pg.pkg +
		"/native/lib\n" +
		"echo one >node_modules/" + pg.pkg + "/native/bin/postgres\n" +
		"echo lib >node_modules/" + pg.pkg + "/native/lib/libx.so.1.2\n" +
		`echo '[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so"}]' >node_modules/` + pg.pkg +
		"/native/pg-symlinks.json\n"
	if ch.pkg != "" {
		script += "mkdir -p node_modules/" + ch.pkg + "\necho two >node_modules/" + ch.pkg + "/libchdb.so\n"
	}
	return script
}

func TestConcurrentInstallsRunNPMOnce(t *testing.T) {
	dir, runs := filepath.Join(t.TempDir(), "a", "engines"), filepath.Join(t.TempDir(), "runs")
	t.Setenv(EnvDir, dir)
	fakeNPM(t, lay(runs))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := Install(t.Context(), &bytes.Buffer{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, _ := os.ReadFile(runs); string(n) != "run\n" {
		t.Errorf("npm ran %d times, want once", bytes.Count(n, []byte("\n")))
	}
	folder, err := Postgres()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(folder, "lib", "libx.so")); err != nil || string(got) != "lib\n" {
		t.Errorf("the link in the package reads %q, %v", got, err)
	}
	if left, _ := filepath.Glob(dir + ".tmp-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInstallTakesOverAnEmptyFolderAndAbandonedOnes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "engines")
	abandoned := dir + ".tmp-1"
	for _, d := range []string{dir, abandoned} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(EnvDir, dir)
	fakeNPM(t, lay("/dev/null"))
	if err := Install(t.Context(), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned); err == nil {
		t.Error("the abandoned install is still there")
	}
}

func TestInstallFailsInOneLine(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"npm fails", "echo no network >&2\nexit 3\n", "npm ci: exit status 3: no network"},
		{"npm leaves one out", "mkdir node_modules\n", "npm left out @"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "engines")
			t.Setenv(EnvDir, dir)
			fakeNPM(t, c.script)
			err := Install(t.Context(), &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Install = %v, want %q in one line", err, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("a failed install left its folder in place")
			}
		})
	}
}

func TestInstallWithoutNPM(t *testing.T) {
	t.Setenv(EnvDir, filepath.Join(t.TempDir(), "engines"))
	t.Setenv("PATH", t.TempDir())
	err := Install(t.Context(), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "install Node.js with npm") {
		t.Errorf("Install = %v", err)
	}
}

func TestInstallKeepsWhatIsNotItsOwn(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "letter")
	if err := os.WriteFile(mine, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvDir, dir)
	fakeNPM(t, lay("/dev/null"))
	err := Install(t.Context(), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "holds something other") {
		t.Errorf("Install = %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

// Cancelling ends the wait for another process, and npm itself.
func TestInstallIsCancelled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "engines")
	t.Setenv(EnvDir, dir)
	unlock, err := lockFile(t.Context(), dir+".lock", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Install(ctx, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "another install") {
		t.Errorf("Install while locked = %v", err)
	}
	unlock()

	started := filepath.Join(t.TempDir(), "started")
	if err := os.WriteFile(started, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fakeNPM(t, "echo go >"+started+"\nsleep 1000 & wait\n")
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Install(ctx, &bytes.Buffer{}) }()
	for b, _ := os.ReadFile(started); len(b) == 0; b, _ = os.ReadFile(started) {
		runtime.Gosched()
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("Install = nil after it was cancelled")
	}
}
