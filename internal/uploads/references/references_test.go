package references

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/storagetest"
	"github.com/millrace-io/millrace/schemas/stream"
)

var here = netguard.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})

func opener(t *testing.T, cfg Config) *Opener {
	t.Helper()
	o, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, o *Opener, reference string) (string, error) {
	t.Helper()
	f, err := o.Open(t.Context(), reference)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

// refused tells whether a reference breaks a rule.
func refused(t *testing.T, o *Opener, reference, code string) {
	t.Helper()
	text, err := content(t, o, reference)
	var broken *Error
	if !errors.As(err, &broken) || broken.Code != code || strings.Contains(broken.Rule, "secret") {
		t.Errorf("%s: %q, %v; want the rule %s", reference, text, err, code)
	}
}

// TestOff (invariant 1): what is not configured cannot be referred to.
func TestOff(t *testing.T) {
	o := opener(t, Config{})
	for _, reference := range []string{"s3://a/b", "nats://aa/b", "file:///etc/passwd", "ftp://example.com/a"} {
		refused(t, o, reference, "off")
	}
	for _, reference := range []string{"", "a", "http://example.com/a", "gopher://a/b"} {
		refused(t, o, reference, "scheme")
	}
	for _, reference := range []string{"s3://a/b?c", "s3://a/b#c", "://", "s3://a/" + strings.Repeat("b", MaxLength)} {
		refused(t, o, reference, "url")
	}
	if _, err := New(Config{S3Buckets: []string{"a"}}); err == nil {
		t.Error("buckets of S3 without a server are taken")
	}
}

// TestFolder (invariant 1): no path and no link leads out of the folder, and only regular files are files.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "in")
	write(t, filepath.Join(folder, "a b.csv"), "x\n1\n")
	write(t, filepath.Join(folder, "deep/c.csv"), "y\n")
	write(t, filepath.Join(dir, "outside/secret"), "secret")
	write(t, filepath.Join(dir, "in2/secret"), "secret")
	for name, to := range map[string]string{
		"out": "../outside/secret", "absolute": filepath.Join(dir, "outside/secret"), "folder": "../outside", "within": "a b.csv",
	} {
		if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := opener(t, Config{Folder: folder})
	base := "file://" + folder
	for name, want := range map[string]string{"/a%20b.csv": "x\n1\n", "/deep/c.csv": "y\n", "/within": "x\n1\n"} {
		if got, err := content(t, o, base+name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"/out", "/absolute", "/folder/secret", "/pipe", "/deep", "/none", "/a%20b.csv/x"} {
		refused(t, o, base+name, "missing")
	}
	for _, name := range []string{"/../outside/secret", "/%2e%2e/outside/secret", "/./a", "/", "/deep//c.csv", "/a%00b", "/a%5Cb"} {
		refused(t, o, base+name, "path")
	}
	for _, reference := range []string{base + "2/secret", "file:///etc/passwd", "file://host" + folder + "/a%20b.csv", "file:a.csv"} {
		refused(t, o, reference, "folder")
	}
}

// TestFolderChanges (invariant 2): a file that is written to while it is read is not taken.
func TestFolderChanges(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.csv")
	write(t, path, "x\n1\n")
	o := opener(t, Config{Folder: folder})
	f, err := o.Open(t.Context(), "file://"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	write(t, path, "x\n1\n2\n")
	for range 2 {
		if _, err := io.ReadAll(f); !errors.Is(err, ErrChanged) {
			t.Errorf("%v", err)
		}
	}
}

// TestNATS reads objects of the buckets that are allowed.
func TestNATS(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	large := bytes.Repeat([]byte("0123456789"), 300_000)
	for _, name := range []string{"in", "other", "_uploads"} {
		bucket, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: name})
		if err == nil {
			_, err = bucket.PutBytes(t.Context(), "a/b.csv", large)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o := opener(t, Config{NATS: objects.NewNATS(js, 1), NATSBuckets: []string{"in", "none", "_uploads"}})
	if got, err := content(t, o, "nats://in/a/b.csv"); got != string(large) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	refused(t, o, "nats://other/a/b.csv", "bucket")
	refused(t, o, "nats://_uploads/a/b.csv", "path")
	refused(t, o, "nats://in/c", "missing")
	refused(t, o, "nats://none/c", "missing")
	refused(t, o, "s3://in/a/b.csv", "off")
}

// TestFTP reads files of servers that are allowed, and of networks that are.
func TestFTP(t *testing.T) {
	folder := t.TempDir()
	large := strings.Repeat("0123456789", 300_000)
	write(t, filepath.Join(folder, "in/a b.csv"), large)
	at := storagetest.FTP(t, folder)
	o := opener(t, Config{FTPHosts: []string{"example.com", at}, Guard: here})
	base := "ftp://" + storagetest.User + ":" + storagetest.Password + "@" + at
	if got, err := content(t, o, base+"/in/a%20b.csv"); got != large || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	refused(t, o, base+"/in/none", "missing")
	refused(t, o, base+"/in/", "path")
	refused(t, o, base, "path")
	refused(t, o, base+"/a%0D%0ADELE%20in", "path")
	refused(t, o, "ftp://"+storagetest.User+":wrong@"+at+"/in/a", "login")
	refused(t, o, "ftp://"+at+"/in/a", "login")
	refused(t, o, "ftp://example.com:2121/a", "host")
	refused(t, o, "ftp://127.0.0.1/a", "host")
	refused(t, opener(t, Config{FTPHosts: []string{at}, Guard: netguard.New(nil)}), base+"/in/a%20b.csv", "private")

	f, err := o.Open(t.Context(), base+"/in/a%20b.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "in/a b.csv"), large+"more")
	if _, err := io.ReadAll(f); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that changes: %v", err)
	}
}
