// Package storagetest runs servers of S3 and FTP for tests.
package storagetest

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/millrace-io/millrace/internal/embedded/port"
)

// User and Password are the login of each server. S3 calls them access key and secret key.
const (
	User     = "millrace"
	Password = "millrace-secret"
)

// S3 runs versitygw over an empty folder until the test ends, and returns its URL. Flags are those of versitygw. S3 skips
// the test if the server cannot be built; in CI the test fails then.
func S3(t testing.TB, flags ...string) (url string) {
	t.Helper()
	addr, err := port.Try("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Not every file system of a test keeps attributes of files, so they have a folder.
	args := append([]string{"--quiet", "--port", addr.String()}, flags...)
	server := exec.Command(build(t), append(args, "posix", "--sidecar", t.TempDir(), t.TempDir())...)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+User, "ROOT_SECRET_KEY="+Password)
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

// Client returns a client of the server at a URL, after it has made the buckets.
func Client(t testing.TB, url string, buckets ...string) *minio.Client {
	t.Helper()
	client, err := minio.New(strings.TrimPrefix(url, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(User, Password, ""), Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range buckets {
		if err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return client
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
