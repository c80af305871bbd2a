// Package s3test runs a real server of S3 for tests: versitygw over a folder.
package s3test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/port"
)

// Login of the server.
const (
	AccessKey = "millrace"
	SecretKey = "millrace-secret"
)

// Start runs a server without buckets until the test ends, and returns its URL. Flags are
// those of versitygw. It skips the test where the server cannot be built, but for CI.
func Start(t testing.TB, flags ...string) (url string) {
	t.Helper()
	addr, err := port.Try("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Not every file system of a test keeps attributes of files, so they have a folder.
	args := append([]string{"--quiet", "--port", addr.String()}, flags...)
	server := exec.Command(build(t), append(args, "posix", "--sidecar", t.TempDir(), t.TempDir())...)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	server.Stderr = t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	waitFor(t, addr)
	return "http://" + addr.String()
}

func build(t testing.TB) (program string) {
	t.Helper()
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), "versitygw")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", program,
		"github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = filepath.Join(filepath.Dir(strings.TrimSpace(string(module))), "test", "versitygw")
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("build the server of S3: %v\n%s", err, out)
		}
		t.Skipf("without the server of S3: %v\n%s", err, out)
	}
	return program
}

func waitFor(t testing.TB, addr net.Addr) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get("http://" + addr.String())
		if err == nil {
			_ = answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server of S3 does not answer: %v", err)
		}
	}
}
