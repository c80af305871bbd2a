package uploads

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/storagetest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/references"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// watcherOf returns a watcher of the prefix in/ of the bucket shop.
func watcherOf(pool *pgxpool.Pool, js jetstream.JetStream, endpoint string, log *slog.Logger) (*Watcher, error) {
	store, err := uploads.New(pool, uploads.Limits{Open: 10_000}, uploads.Attempts{})
	if err != nil {
		return nil, err
	}
	feed, _, err := feeder(store, nil, log)
	if err != nil {
		return nil, err
	}
	h, err := New(schema.Bounds{}, store, uploads.NewFiles(objects.NewNATS(js, 1)), feed, auth.New(auth.Config{}), log)
	if err != nil {
		return nil, err
	}
	s3, err := objects.NewS3(objects.S3Config{
		Endpoint: endpoint, AccessKey: storagetest.User, SecretKey: storagetest.Password, Region: "us-east-1",
	})
	if err != nil {
		return nil, err
	}
	place, err := references.NewPlace(references.Config{S3: s3}, "s3://shop/in/")
	if err != nil {
		return nil, err
	}
	return NewWatcher(WatchConfig{Places: []*references.Place{place}, User: "shop", Every: time.Millisecond}, h, log)
}

// watchAlone watches in a process of its own, until it is killed.
func watchAlone(dsn, url, endpoint string) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	queue.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(url, nats.UserInfo("millrace", "test"))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	w, err := watcherOf(pool, js, endpoint, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for { // also while another one leads
		if _, err := w.Scan(context.Background(), time.Time{}); err != nil {
			return err
		}
	}
}

// bucket is a watched bucket, and what is known of its contents, by their digests.
type bucket struct {
	*site
	s3       *minio.Client
	endpoint string
	at       map[string]string // digests by keys
	wanted   map[string]bool   // digests of all contents that ever were there
	n        int
}

func (b *bucket) put(key string, text []byte) {
	b.t.Helper()
	if _, err := b.s3.PutObject(b.t.Context(), "shop", key, bytes.NewReader(text), int64(len(text)), minio.PutObjectOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.has(key, text)
}

func (b *bucket) has(key string, text []byte) {
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	b.at[key], b.wanted[digest] = digest, true
}

// fresh is a content that was never there.
func (b *bucket) fresh() []byte {
	b.n++
	return []byte("no,title\n" + strings.Repeat(fmt.Sprintf("%d,Chair\n", b.n), 1+b.n%50))
}

// move renames an object, as S3 can.
func (b *bucket) move(from, to string) {
	b.t.Helper()
	_, err := b.s3.CopyObject(b.t.Context(),
		minio.CopyDestOptions{Bucket: "shop", Object: to}, minio.CopySrcOptions{Bucket: "shop", Object: from})
	if err == nil {
		err = b.s3.RemoveObject(b.t.Context(), "shop", from, minio.RemoveObjectOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.at[to] = b.at[from]
	delete(b.at, from)
}

// taken returns how often each content was taken.
func (b *bucket) taken() map[string]int {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), "SELECT encode(sha256, 'hex') FROM millrace.upload WHERE received_at IS NOT NULL")
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]int{}
	var digest string
	if _, err := pgx.ForEachRow(rows, []any{&digest}, func() error { all[digest]++; return nil }); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// process watches in another process.
func (b *bucket) process() *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_WATCHER="+b.dsn, "MILLRACE_TEST_NATS="+b.nats.URL(), "MILLRACE_TEST_S3="+b.endpoint)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { b.kill(cmd) })
	return cmd
}

func (b *bucket) kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // or it was killed before
	_ = cmd.Wait()
}

// TestWatchS3: several processes that look at a prefix of S3 at a time, and are killed, take each content once, while objects
// are overwritten, renamed, written in parts and deleted. An object whose parts are not put together is none.
func TestWatchS3(t *testing.T) {
	slowtest.Mark(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	b := &bucket{
		site: serve(t, auth.Config{}, uploads.Limits{}), endpoint: storagetest.S3(t),
		at: map[string]string{}, wanted: map[string]bool{},
	}
	b.s3 = storagetest.Client(t, b.endpoint, "shop")
	core := minio.Core{Client: b.s3}
	half := bytes.Repeat([]byte("no,title\n1,half\n"), 1000)
	parts, err := core.NewMultipartUpload(t.Context(), "shop", "in/half.csv", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	part, err := core.PutObjectPart(t.Context(), "shop", "in/half.csv", parts, 1, bytes.NewReader(half), int64(len(half)),
		minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := watcherOf(b.pool, b.js, b.endpoint, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	stop := embeddedtest.Go(t, watcher.Run)
	processes := []*exec.Cmd{b.process(), b.process()}
	keys := []string{"in/a.csv", "in/b.csv", "in/deep/c.csv", "in/d e.csv", "in/ü.csv", "in/f.csv"}
	for range 150 {
		key := keys[r.IntN(len(keys))]
		switch r.IntN(8) {
		case 0, 1, 2:
			b.put(key, b.fresh())
		case 3:
			if b.at[key] != "" {
				b.move(key, keys[r.IntN(len(keys))]+".moved.csv")
			}
		case 4:
			if b.at[key] != "" {
				delete(b.at, key)
				if err := b.s3.RemoveObject(t.Context(), "shop", key, minio.RemoveObjectOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		case 5:
			text := b.fresh()
			b.put(key, text)
			b.put(keys[r.IntN(len(keys))], text) // the same somewhere else
		case 6:
			i := r.IntN(len(processes))
			b.kill(processes[i])
			processes[i] = b.process()
		case 7:
			time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond) // so that some is taken
		}
	}
	if n := b.taken()[hex.EncodeToString(sum(half))]; n != 0 {
		t.Errorf("an object whose parts are not put together was taken %d times", n)
	}
	_, err = core.CompleteMultipartUpload(t.Context(), "shop", "in/half.csv", parts,
		[]minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.has("in/half.csv", half)
	b.await()
	stop()
	for _, p := range processes {
		b.kill(p)
	}
	for range 3 { // nothing more comes of it
		if scan, err := watcher.Scan(t.Context(), time.Time{}); err != nil || len(scan.Taken) > 0 {
			t.Errorf("%+v, %v", scan, err)
		}
	}
	all := b.taken()
	for digest, n := range all {
		if n != 1 || !b.wanted[digest] {
			t.Errorf("the content %s was taken %d times", digest, n)
		}
	}
	t.Logf("%d contents of %d were taken", len(all), len(b.wanted))
}

func sum(text []byte) []byte {
	digest := sha256.Sum256(text)
	return digest[:]
}

// await waits until all contents are taken that are there.
func (b *bucket) await() {
	b.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var missing []error
		all := b.taken()
		for key, digest := range b.at {
			if all[digest] == 0 {
				missing = append(missing, fmt.Errorf("%s is not taken: %s", key, digest))
			}
		}
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatal(errors.Join(missing...))
		}
	}
}
