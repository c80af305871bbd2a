package references

import (
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/storagetest"
)

// listed lists a place and reads all of its files.
func listed(t *testing.T, cfg Config, location string) (paths []string, prints map[string]string) {
	t.Helper()
	p, err := NewPlace(cfg, location)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if strings.Contains(p.Name, "secret") {
		t.Error("the name of a place has the password: ", p.Name)
	}
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prints = map[string]string{}
	for _, e := range all {
		f, err := p.Open(t.Context(), e.Path)
		if err != nil {
			t.Fatal(e.Path, err)
		}
		if text, err := io.ReadAll(f); err != nil || string(text) != "of "+filepath.Base(e.Path) {
			t.Errorf("%s: %q, %v", e.Path, text, err)
		}
		_ = f.Close()
		paths, prints[e.Path] = append(paths, e.Path), e.Fingerprint
	}
	slices.Sort(paths)
	return paths, prints
}

// TestPlaces lists the files of places, also in folders, but for links and those that are on their way, and reads them.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	names := []string{"a.csv", "deep/b c.csv", ".hidden", "c.csv.part", "d.tmp", "e~"}
	for _, name := range names {
		write(t, filepath.Join(dir, "in", name), "of "+filepath.Base(name))
	}
	write(t, filepath.Join(dir, "outside/secret"), "secret")
	if err := os.Symlink("../outside/secret", filepath.Join(dir, "in/link")); err != nil {
		t.Fatal(err)
	}
	want := []string{"a.csv", "deep/b c.csv"}
	folder := "file://" + filepath.Join(dir, "in")
	paths, prints := listed(t, Config{}, folder)
	if !slices.Equal(paths, want) {
		t.Errorf("folder: %q", paths)
	}
	if err := os.Rename(filepath.Join(dir, "in/c.csv.part"), filepath.Join(dir, "in/c.csv")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "in/c.csv"), "of c.csv")
	if _, after := listed(t, Config{}, folder); after["a.csv"] != prints["a.csv"] || after["c.csv"] == "" || len(after) != 3 {
		t.Errorf("%q, before %q", after, prints)
	}

	at := storagetest.FTP(t, filepath.Join(dir, "in"))
	if err := os.Remove(filepath.Join(dir, "in/link")); err != nil { // the server follows it
		t.Fatal(err)
	}
	cfg := Config{Guard: netguard.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})}
	server := "ftp://" + storagetest.User + ":" + storagetest.Password + "@" + at
	if paths, _ := listed(t, cfg, server+"/"); !slices.Equal(paths, []string{"a.csv", "c.csv", "deep/b c.csv"}) {
		t.Errorf("FTP: %q", paths)
	}
	if paths, _ := listed(t, cfg, server+"/deep"); !slices.Equal(paths, []string{"b c.csv"}) {
		t.Errorf("FTP below a folder: %q", paths)
	}
	p, err := NewPlace(Config{Guard: netguard.New(nil)}, server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.List(t.Context()); err == nil || !strings.Contains(err.Error(), "public network") {
		t.Errorf("a private network is listed: %v", err)
	}
	for _, wrong := range []string{"", "a", "nats://b/c", "s3://b/c", "file:///none/at/all", "ftp:///x", "file:///a?b"} {
		if _, err := NewPlace(Config{}, wrong); err == nil {
			t.Errorf("%q is taken for a place", wrong)
		}
	}
}

// TestPlaceInS3 lists the objects behind a prefix.
func TestPlaceInS3(t *testing.T) {
	endpoint := storagetest.S3(t)
	client := storagetest.Client(t, endpoint, "shop")
	put := func(key, text string) {
		_, err := client.PutObject(context.Background(), "shop", key, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"in/a.csv", "in/deep/b.csv", "in/c.part", "other/d.csv"} {
		put(key, "of "+filepath.Base(key))
	}
	s3, err := objects.NewS3(objects.S3Config{
		Endpoint: endpoint, AccessKey: storagetest.User, SecretKey: storagetest.Password, Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := listed(t, Config{S3: s3}, "s3://shop/in/")
	if !slices.Equal(paths, []string{"in/a.csv", "in/deep/b.csv"}) {
		t.Errorf("%q", paths)
	}
	o := opener(t, Config{S3: s3, S3Buckets: []string{"shop"}})
	if text, err := content(t, o, "s3://shop/other/d.csv"); text != "of d.csv" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	refused(t, o, "s3://shop/none", "missing")
	refused(t, o, "s3://shap/other/d.csv", "bucket")
	p, err := NewPlace(Config{S3: s3}, "s3://none/in/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.List(t.Context()); err == nil || !strings.Contains(err.Error(), "not there") {
		t.Errorf("%v", err)
	}
}
