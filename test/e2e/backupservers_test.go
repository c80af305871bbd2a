package e2e

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/storagetest"
)

// backups is a bucket of S3 for sets.
type backups struct {
	t      *testing.T
	client *minio.Client
	url    string
}

const backupBucket = "backups"

func newBackups(t *testing.T) *backups {
	t.Helper()
	url := storagetest.S3(t)
	return &backups{t: t, url: url, client: storagetest.Client(t, url, backupBucket)}
}

func (b *backups) env() []string {
	return []string{
		"MILLRACE_BACKUP_S3_ENDPOINT=" + b.url, "MILLRACE_BACKUP_S3_ACCESS_KEY=" + storagetest.User,
		"MILLRACE_BACKUP_S3_SECRET_KEY=" + storagetest.Password,
	}
}

func (b *backups) place(name string) string { return "s3://" + backupBucket + "/" + name }

// TestBackupOfServers holds the promise of package backup for split roles on servers of their own, with the set in S3:
// it is taken while everything is written, the servers are destroyed, and other empty servers get all of it. A restore
// that is killed is begun again; until it has ended, no process starts. Servers that have something are refused by the
// name of what they have, and so is a set that is cut anywhere.
func TestBackupOfServers(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	store := newBackups(t)
	n := seed(t)
	s := onServers(t)
	s.serve()
	c := recent(n, backedUpArticles(t))
	parts := pieces(c.lines(), 2)
	s.emit(parts[0])
	regroup := launch(t, nil, nil, "regroup", "--slot-groups=2", "--nats-url", s.natsURL())
	if status := regroup.wait(t, waitLimit); status != 0 {
		t.Fatalf("regroup: exit status %d:\n%s", status, regroup.log)
	}
	list, _ := crawlHistory(t)
	enabled, disabled := s.importSources(t, list[:min(len(list), 400)])
	s.awaitJobs(t, enabled, disabled)
	load := s.busy(t, append(slices.Collect(maps.Keys(enabled)), slices.Collect(maps.Keys(disabled))...), n)
	load.await(t, 20)

	emit := newFeed(parts[1])
	emitting := emit.into(s.server)
	emit.allow(len(parts[1]) / 4)
	emit.waitRead(t)
	emit.allow(len(parts[1])) // which goes on meanwhile
	acknowledged := load.acknowledged()
	backUp := launch(t, append(s.env(), store.env()...), nil, "backup", "--to", store.place("one"))
	if status := backUp.wait(t, backupLimit); status != 0 {
		t.Fatalf("backup: exit status %d:\n%s%s", status, backUp.out, backUp.log)
	}
	t.Logf("%s%s", backUp.out, perMillion(backUp.out.String()))
	if status := emitting.wait(t, waitLimit); status != 0 {
		t.Fatalf("emit: exit status %d:\n%s", status, emitting.log)
	}
	load.stop(t)
	s.stop()

	r := onServers(t)
	restore := func(env []string) *process {
		return launch(t, append(env, store.env()...), nil, "restore", "--from", store.place("one"))
	}
	for name, has := range map[string]string{
		"NATS": "has a stream", "CLICKHOUSE": "of ClickHouse has tables", "POSTGRES": "of Postgres has a schema millrace",
	} {
		if p := restore(r.with(name, s)); p.wait(t, backupLimit) != 1 || !strings.Contains(p.log.String(), has) {
			t.Errorf("a restore to a server that has an installation, %s: want %q:\n%s", name, has, p.log)
		}
	}
	s.destroy()
	killRestores(t, r, restore)
	p := restore(r.env())
	if status := p.wait(t, backupLimit); status != 0 {
		t.Fatalf("restore: exit status %d:\n%s", status, p.log)
	}
	t.Logf("%s", p.out)
	r.serve()
	r.countsItself(t)
	load.mustHave(t, r.server, acknowledged)
	r.awaitLog(t, 0)
	r.checkFollowed(t)
	r.emit(c.lines())
	mustMatch(t, r.server, c)
	load.complete(t, r.server)
	store.cut("one")
}

// killRestores kills restores in each store, and holds that no process of Millrace works on what they leave.
func killRestores(t *testing.T, r *servers, restore func(env []string) *process) {
	t.Helper()
	for _, at := range []string{"restoring ClickHouse", "restoring Postgres", "restoring NATS"} {
		p := restore(r.env())
		select {
		case <-p.log.has(at): // what is left of a small installation takes a moment
			p.kill()
		case <-p.done:
			t.Fatalf("the restore has ended before it could be killed:\n%s", p.log)
		case <-time.After(backupLimit):
			t.Fatalf("%s: nothing says so after %s", at, backupLimit)
		}
		for _, args := range [][]string{
			{"serve", "--role=ingest", "--http-addr", freePort(t), "--data", t.TempDir()},
			{"migrate"},
			{"backup", "--to", filepath.Join(t.TempDir(), "set")},
		} {
			early := launch(t, r.env(), nil, args...)
			if early.wait(t, startLimit) != 1 || !strings.Contains(early.log.String(), "has not ended") {
				t.Errorf("%s after a restore that was killed when it said %q:\n%s", args[0], at, early.log)
			}
		}
	}
}

// cut cuts a set as cutSet does.
func (b *backups) cut(name string) {
	b.t.Helper()
	ctx := b.t.Context()
	type file struct {
		key, name string
		data      []byte
	}
	var all []file
	total := 0
	for o := range b.client.ListObjects(ctx, backupBucket, minio.ListObjectsOptions{Prefix: name + "/", Recursive: true}) {
		if o.Err != nil {
			b.t.Fatal(o.Err)
		}
		if f := (file{o.Key, strings.TrimPrefix(o.Key, name+"/"), b.read(ctx, o.Key)}); f.name != "manifest.json" {
			all = append(all, f)
			total += len(f.data)
		}
	}
	check := func(want string) {
		b.t.Helper()
		p := launch(b.t, b.env(), nil, "restore", "--from", b.place(name), "--data", filepath.Join(b.t.TempDir(), "data"))
		if status := p.wait(b.t, waitLimit); status != 1 || !strings.Contains(p.log.String(), want) {
			b.t.Errorf("exit status %d, want 1 and %q:\n%s", status, want, p.log)
		}
	}
	for tenth := 9; tenth >= 0; tenth-- {
		left, cut := total*tenth/10, ""
		for _, f := range all {
			keep := max(0, min(left, len(f.data)))
			left -= keep
			var err error
			switch {
			case keep == len(f.data):
			case cut == "":
				cut = f.name
				_, err = b.client.PutObject(ctx, backupBucket, f.key, bytes.NewReader(f.data[:keep]), int64(keep),
					minio.PutObjectOptions{})
			default:
				err = b.client.RemoveObject(ctx, backupBucket, f.key, minio.RemoveObjectOptions{})
			}
			if err != nil {
				b.t.Fatal(err)
			}
		}
		check(cut)
	}
	if err := b.client.RemoveObject(ctx, backupBucket, name+"/manifest.json", minio.RemoveObjectOptions{}); err != nil {
		b.t.Fatal(err)
	}
	check("manifest.json")
}

func (b *backups) read(ctx context.Context, key string) []byte {
	b.t.Helper()
	o, err := b.client.GetObject(ctx, backupBucket, key, minio.GetObjectOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer o.Close()
	data, err := io.ReadAll(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}
