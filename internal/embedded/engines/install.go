package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Install fills [Dir] with the engines of this platform, through npm. It does
// nothing when they are there, and any number of processes may call it at once:
// one installs, the others wait for it. Progress goes to out, in a few lines.
func Install(ctx context.Context, out io.Writer) error {
	dir, err := Dir()
	if err != nil {
		return err
	}
	if complete(dir) {
		fmt.Fprintf(out, "engines: installed in %s\n", dir)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make the folder of the engines (set %s to name another): %w", EnvDir, err)
	}
	unlock, err := lockFile(ctx, dir+".lock", out)
	if err != nil {
		return err
	}
	defer unlock()
	if complete(dir) {
		fmt.Fprintf(out, "engines: installed in %s by another process\n", dir)
		return nil
	}
	return install(ctx, dir, out)
}

// install fetches into a folder of its own beside dir, and renames it into
// place when it is complete. The caller holds the lock.
func install(ctx context.Context, dir string, out io.Writer) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s holds something other than the engines of this version and platform: remove it, or "+
			"set %s to another folder", dir, EnvDir)
	}
	tmp, err := tempDir(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintf(out, "engines: fetching ClickHouse and Postgres through npm (about 600 MB) into %s\n", dir)
	if err := fetch(ctx, tmp); err != nil {
		return err
	}
	if err := verify(tmp); err != nil {
		return err
	}
	// A folder that was made beforehand is empty, as install has seen.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the empty folder of the engines: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("move the engines into place: %w", err)
	}
	fmt.Fprintf(out, "engines: installed in %s\n", dir)
	return nil
}

// tempDir makes the folder to fetch into, and removes what earlier installs
// that were killed have left: their makers held the lock that the caller holds.
func tempDir(dir string) (string, error) {
	left, err := filepath.Glob(dir + ".tmp-*")
	if err != nil {
		return "", fmt.Errorf("look for abandoned installs beside %s: %w", dir, err)
	}
	for _, l := range left {
		if err := os.RemoveAll(l); err != nil {
			return "", fmt.Errorf("remove an abandoned install: %w", err)
		}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return "", fmt.Errorf("make a folder to fetch the engines into: %w", err)
	}
	// Open to all: Postgres may have to run as another user than the installer.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("open %s to other users: %w", tmp, err)
	}
	return tmp, nil
}

// fetch runs npm in dir. Scripts of the packages do not run; the one thing that
// they do, making symbolic links, is done here.
func fetch(ctx context.Context, dir string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("installing the engines needs npm, which is not on the PATH: install Node.js with npm")
	}
	for name, data := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write %s for npm: %w", name, err)
		}
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--include=optional", "--ignore-scripts",
		"--no-audit", "--no-fund", "--no-progress", "--loglevel=error")
	cmd.Dir = dir
	// npm's own children must end with it when the context is cancelled.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, oneLine(output.String()))
	}
	if err := hydrate(postgres(runtime.GOOS, runtime.GOARCH).folder(dir)); err != nil {
		return fmt.Errorf("link the Postgres libraries: %w", err)
	}
	return nil
}

// verify makes sure that every engine packaged for this platform has come: npm
// leaves out an optional package that it cannot fetch, and says nothing.
func verify(dir string) error {
	for _, e := range []engine{clickhouse(runtime.GOOS, runtime.GOARCH), postgres(runtime.GOOS, runtime.GOARCH)} {
		if e.pkg != "" && !e.in(dir) {
			return fmt.Errorf("npm left out %s: check that its registry has the package (and, on Linux, that the C "+
				"library is glibc), or set %s",
				e.pkg, e.setting)
		}
	}
	return nil
}

// complete tells whether nothing is left to install in dir.
func complete(dir string) bool {
	return installed(dir) && verify(dir) == nil
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

// lockFile takes the lock that path stands for, and waits for it as long as ctx
// allows. The file stays when the lock is released: removing it would let two
// processes hold locks on two files of one name.
func lockFile(ctx context.Context, path string, out io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the engines (set %s to name another folder): %w", EnvDir, err)
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for waited := false; ; waited = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !waited {
			fmt.Fprintln(out, "engines: waiting for another process that installs them")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for another install of the engines: %w", ctx.Err())
		case <-retry.C:
		}
	}
}
