package postgres

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Invariant 4: in a namespace, in a folder that root alone may enter.
func TestRootInANamespace(t *testing.T) {
	root(t)
	private := filepath.Join(t.TempDir(), "private")
	dir := filepath.Join(private, "postgres")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Config{Dir: dir})
	inside, ok := namespaced()
	if !ok {
		t.Skip("this system has no user namespaces")
	}
	if _, err := try(t.Context(), &s.config, inside); err != nil {
		t.Skipf("user namespaces are not permitted here: %v", err)
	}
	stop := run(t, s)
	if inside.kind != s.identity.kind {
		t.Errorf("it runs %s", s.identity.kind)
	}
	if uid := owner(t, filepath.Join(dir, "data", "PG_VERSION")); uid != 0 {
		t.Errorf("its files belong to %d", uid)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Invariant 4: without namespaces; and ever after, as the owner of the folder.
func TestRootBecomesNobody(t *testing.T) {
	root(t)
	folder := t.TempDir()
	if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil { // nobody may enter, as into most data folders
		t.Fatal(err)
	}
	dir := filepath.Join(folder, "data", "postgres")
	s := newServer(t, Config{Dir: dir})
	s.identify = asNobody
	stop := run(t, s)
	uid, _ := nobody()
	if got := owner(t, filepath.Join(dir, "data", "PG_VERSION")); got != uid {
		t.Errorf("its files belong to %d, want %d", got, uid)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	s = newServer(t, Config{Dir: dir})
	stop = run(t, s)
	if c := s.identity.attr.Credential; c == nil || c.Uid != uid {
		t.Errorf("it runs %s", s.identity.kind)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestNobodyOutsideAPrivateFolder(t *testing.T) {
	root(t)
	private := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Config{Dir: filepath.Join(private, "postgres")})
	s.identify = asNobody
	wantFailure(t, s, "set MILLRACE_ENGINES and MILLRACE_DATA")
}

func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("for root only")
	}
}

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
