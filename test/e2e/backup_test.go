package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// backedUpArticles is how many articles TestBackup publishes, of about five events each; MILLRACE_BACKUP_ARTICLES
// says another number.
func backedUpArticles(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("MILLRACE_BACKUP_ARTICLES"))
	if err != nil {
		n = 2000
	}
	return n
}

// TestBackup holds the promise of package backup: a set is taken while events, items, shards and changes of sources
// come, everything is destroyed, and an installation is made of the set. It has all that was acknowledged before the
// backup began, counts each event once, also when all are published again, and goes on with items and sources. A set
// that is cut anywhere is refused, and the file is named.
func TestBackup(t *testing.T) {
	t.Parallel()
	n := seed(t)
	s := up(t)
	c := recent(n, backedUpArticles(t))
	parts := pieces(c.lines(), 2)
	s.emit(parts[0])
	regroup := launch(t, nil, nil, "regroup", "--slot-groups=3", "--nats-url", s.natsURL(), "--data", s.data)
	if status := regroup.wait(t, waitLimit); status != 0 {
		t.Fatalf("regroup: exit status %d:\n%s", status, regroup.log)
	}
	list, _ := crawlHistory(t)
	enabled, disabled := s.importSources(t, list[:min(len(list), 400)])
	s.awaitJobs(t, enabled, disabled)
	load := s.busy(t, append(slices.Collect(maps.Keys(enabled)), slices.Collect(maps.Keys(disabled))...), n)
	load.await(t, 20)

	emit := newFeed(parts[1])
	process := emit.into(s)
	emit.allow(len(parts[1]) / 4)
	emit.waitRead(t)
	emit.allow(len(parts[1])) // which goes on meanwhile
	acknowledged := load.acknowledged()
	folder := filepath.Join(t.TempDir(), "set")
	s.backUp(t, folder)
	if status := process.wait(t, waitLimit); status != 0 {
		t.Fatalf("emit: exit status %d:\n%s", status, process.log)
	}
	load.stop(t)
	s.stop()
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatal(err)
	}

	r := restored(t, folder)
	r.countsItself(t)
	load.mustHave(t, r, acknowledged)
	r.awaitLog(t, 0)
	r.checkFollowed(t)
	r.emit(c.lines())
	mustMatch(t, r, c)
	load.complete(t, r)
	if status, body := answerOf(http.Get(r.url("/health"))); status != http.StatusOK || strings.Contains(string(body), "damaged") {
		t.Errorf("the restored installation says of its health: %d %s", status, body)
	}
	cutSet(t, folder)
}

// TestRefold: where ClickHouse is lost and the backup is older than the stream, what has come since is folded again:
// nothing is missing, and nothing counts twice.
func TestRefold(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	c := recent(seed(t), 2000)
	parts := pieces(c.lines(), 2)
	s.emit(parts[0])
	s.caughtUp()
	folder := filepath.Join(t.TempDir(), "set")
	s.backUp(t, folder)
	s.emit(parts[1])
	s.caughtUp()
	s.stop()
	refold := func() (status int, said string) {
		p := launch(t, s.ports.env(), nil, "refold", "--from", folder, "--data", s.data)
		return p.wait(t, backupLimit), p.out.String() + p.log.String()
	}
	if status, said := refold(); status != 1 || !strings.Contains(said, "has tables") {
		t.Fatalf("a ClickHouse that is there is replaced: exit status %d:\n%s", status, said)
	}
	if err := os.Rename(filepath.Join(s.data, "clickhouse"), filepath.Join(s.data, "clickhouse.lost")); err != nil {
		t.Fatal(err)
	}
	if status, said := refold(); status != 0 {
		t.Fatalf("refold: exit status %d:\n%s", status, said)
	}
	s.restart()
	mustMatch(t, s, c)
	s.emit(c.lines())
	mustMatch(t, s, c)
}

// backUp takes a backup by the command.
func (s *server) backUp(t *testing.T, folder string) {
	t.Helper()
	p := launch(t, s.ports.env(), nil, "backup", "--to", folder, "--data", s.data)
	if status := p.wait(t, backupLimit); status != 0 {
		t.Fatalf("backup: exit status %d:\n%s%s", status, p.out, p.log)
	}
	t.Logf("%s%s", p.out, perMillion(p.out.String()))
}

var reportedBackup = regexp.MustCompile(`(\d+) bytes, (\d+) events, in (\S+)`)

// perMillion is what a report of a backup comes to for a million events.
func perMillion(report string) string {
	m := reportedBackup.FindStringSubmatch(report)
	if m == nil {
		return ""
	}
	bytes, _ := strconv.ParseFloat(m[1], 64)
	events, _ := strconv.ParseFloat(m[2], 64)
	took, _ := time.ParseDuration(m[3])
	return fmt.Sprintf("a million events: %.0f MB, %s", bytes/events, time.Duration(float64(took)/events*1e6).Round(time.Millisecond))
}

// backupLimit is generous: the set may be large.
const backupLimit = 20 * time.Minute

// restored makes an installation of a set, in another folder at other addresses, and starts it.
func restored(t *testing.T, folder string) *server {
	t.Helper()
	r := prepare(t)
	p := launch(t, r.ports.env(), nil, "restore", "--from", folder, "--data", r.data)
	if status := p.wait(t, backupLimit); status != 0 {
		t.Fatalf("restore: exit status %d:\n%s%s", status, p.out, p.log)
	}
	t.Logf("%s", p.out)
	r.start()
	return r
}

// countsItself holds the funnel to the rows of the table.
func (s *server) countsItself(t *testing.T) {
	t.Helper()
	s.caughtUp()
	f := get[funnel](s, "/funnel", "period=24h")
	got := 0
	for _, stage := range f.Stages {
		got += stage.Events
	}
	if rows := s.ask("SELECT count() FROM events"); rows != fmt.Sprint(got) {
		t.Errorf("the restored funnel counts %d events, and the table has %s", got, rows)
	}
}

// say posts from any goroutine.
func (s *server) say(path, body string) (status int, answer []byte) {
	return answerOf(http.Post(s.url(api+path), "application/json", strings.NewReader(body)))
}

// busyQueue is what other systems do while a backup is taken.
type busyQueue struct {
	cancel context.CancelFunc
	group  errgroup.Group
	added  chan int // numbers of items that were acknowledged, in order
	ended  chan int // of items whose end was acknowledged
	seen   [2][]int
}

// busy adds items to a queue and works them, registers files of shards, and toggles sources, until it is stopped.
func (s *server) busy(t *testing.T, ids []string, seed uint64) *busyQueue {
	t.Helper()
	if status, _, text := s.post("/queues", "application/json", `{"name":"mail","max_attempts":20}`); status != http.StatusCreated {
		t.Fatalf("POST /queues: %d %s", status, text)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &busyQueue{cancel: cancel, added: make(chan int, 1<<20), ended: make(chan int, 1<<20)}
	b.group.Go(func() error {
		for i := 0; ctx.Err() == nil; i++ {
			body := fmt.Sprintf(`{"items":[{"payload":%d,"key":"item-%d"}]}`, i, i)
			if status, text := s.say("/queues/mail/items", body); status != http.StatusCreated {
				return fmt.Errorf("add item %d: %d %s", i, status, text)
			}
			b.added <- i
			if i%10 == 0 {
				file := fmt.Sprintf(`{"filename":"20250101%06d","shards":[0,1,2]}`, i)
				if status, text := s.say(shardsAPI+"/files/register", file); status != http.StatusOK {
					return fmt.Errorf("register a file: %d %s", status, text)
				}
			}
		}
		return nil
	})
	b.group.Go(func() error {
		for ctx.Err() == nil {
			if _, err := b.work(s, 1); err != nil {
				return err
			}
		}
		return nil
	})
	b.group.Go(func() error {
		order := rand.New(rand.NewPCG(seed, 9))
		for ctx.Err() == nil {
			if err := s.toggle(ids, 40, order, false); err != nil {
				return err
			}
		}
		return nil
	})
	return b
}

// work takes items and ends them. It returns how many.
func (b *busyQueue) work(s *server, limit int) (int, error) {
	status, text := s.say("/queues/mail/take", fmt.Sprintf(`{"worker":"w","limit":%d,"lease_s":5}`, limit))
	var taken struct {
		Items []struct {
			ID, Generation int
			Payload        int
		}
	}
	if err := json.Unmarshal(text, &taken); err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("take items: %d %s", status, text)
	}
	for _, i := range taken.Items {
		status, text := s.say(fmt.Sprintf("/queues/mail/items/%d/done", i.ID), fmt.Sprintf(`{"generation":%d}`, i.Generation))
		if status == http.StatusConflict { // its lease has ended
			continue
		}
		if status != http.StatusOK {
			return 0, fmt.Errorf("end item %d: %d %s", i.ID, status, text)
		}
		b.ended <- i.Payload
	}
	return len(taken.Items), nil
}

// await waits until so many items were added and ended.
func (b *busyQueue) await(t *testing.T, n int) {
	t.Helper()
	poll(t, waitLimit, "items to be added and ended", func() bool { return len(b.added) >= n && len(b.ended) >= n })
}

// acknowledged is what has been so far: the items that were added, and those that have ended.
func (b *busyQueue) acknowledged() (all [2][]int) {
	for i, c := range []chan int{b.added, b.ended} {
		for n := len(c); n > 0; n-- {
			b.seen[i] = append(b.seen[i], <-c)
		}
		all[i] = slices.Clone(b.seen[i])
	}
	return all
}

func (b *busyQueue) stop(t *testing.T) {
	t.Helper()
	b.cancel()
	if err := b.group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// mustHave: each item that was acknowledged before the backup is there once, and has ended if that was acknowledged.
func (b *busyQueue) mustHave(t *testing.T, s *server, acknowledged [2][]int) {
	t.Helper()
	items := s.items(t)
	for _, n := range acknowledged[0] {
		if len(items[n]) != 1 {
			t.Errorf("item %d is there %d times: %v", n, len(items[n]), items[n])
		}
	}
	for _, n := range acknowledged[1] {
		if !slices.Equal(items[n], []string{"done"}) {
			t.Errorf("item %d had ended, and is %v", n, items[n])
		}
	}
	t.Logf("%d items were added and %d ended before the backup; the restored installation has %d", len(acknowledged[0]),
		len(acknowledged[1]), len(items))
}

// items are the states of the queue's items, by their payload.
func (s *server) items(t *testing.T) map[int][]string {
	t.Helper()
	db, err := pgx.Connect(t.Context(), s.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	rows, err := db.Query(t.Context(), `SELECT i.payload::text::integer, i.status::text FROM millrace.item AS i
		JOIN millrace.stage AS q ON q.stage = i.stage WHERE q.name = 'mail'`)
	if err != nil {
		t.Fatal(err)
	}
	all, number, status := map[int][]string{}, 0, ""
	if _, err := pgx.ForEachRow(rows, []any{&number, &status}, func() error {
		all[number] = append(all[number], status)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// complete adds what was added before again, which changes nothing, and works the queue to its end.
func (b *busyQueue) complete(t *testing.T, s *server) {
	t.Helper()
	before := s.items(t)
	poll(t, waitLimit, "all items to be done", func() bool {
		if _, err := b.work(s, 100); err != nil {
			t.Fatal(err)
		}
		for _, states := range s.items(t) {
			if !slices.Equal(states, []string{"done"}) {
				return false
			}
		}
		return true
	})
	if now := s.items(t); len(now) != len(before) {
		t.Errorf("%d items have become %d", len(before), len(now))
	}
}

// cutSet cuts a set at every tenth of its size, from its end on, and holds that it is refused by the name of the file
// that is cut.
func cutSet(t *testing.T, folder string) {
	t.Helper()
	type file struct {
		path, name string
		size       int64
	}
	var all []file
	var total int64
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "manifest.json" {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		all = append(all, file{path, filepath.ToSlash(name), info.Size()})
		total += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		data := filepath.Join(t.TempDir(), "data")
		p := launch(t, nil, nil, "restore", "--from", folder, "--data", data)
		if status := p.wait(t, waitLimit); status != 1 || !strings.Contains(p.log.String(), want) {
			t.Errorf("exit status %d, want 1 and %q:\n%s", status, want, p.log)
		}
		if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a refused restore has made its folder: %v", err)
		}
	}
	for tenth := int64(9); tenth >= 0; tenth-- {
		left, cut := total*tenth/10, ""
		for _, f := range all {
			keep := max(0, min(left, f.size))
			left -= keep
			if keep == f.size {
				continue
			}
			if cut == "" {
				cut = f.name
				err = os.Truncate(f.path, keep)
			} else if err = os.Remove(f.path); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		check(cut)
	}
	if err := os.Remove(filepath.Join(folder, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	check("manifest.json")
}
