package pipeline_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// bench is a stream, a database and the truth about what was published.
type bench struct {
	t      *testing.T
	nc     *nats.Conn
	js     jetstream.JetStream
	ch     *clickhouse.Options
	db     driver.Conn
	dir    string
	stages event.Stages
	groups uint32                                      // slot groups
	wrap   func(jetstream.KeyValue) jetstream.KeyValue // what is between projectors and the bucket, or nil
	hear   func(text string)                           // of what projectors log, or nil
	truth  truth
}

// truth is a plain recount.
type truth struct {
	seen     map[string]bool
	count    map[string]uint64
	articles map[string]map[string]bool
	sources  map[string]uint64
	invalid  int
	last     uint64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, &engine)
}

func newBenchOn(t *testing.T, engine *embeddedtest.ClickHouse) *bench {
	t.Helper()
	nc := embeddedtest.Connect(t, embeddedtest.NATS(t))
	js, err := jetstream.New(nc)
	must(t, err)
	// A window this short lets nearly every repeat through to the projector.
	must(t, stream.Ensure(t.Context(), js, stream.Config{DedupWindow: 100 * time.Millisecond}))
	stages, err := event.ParseStages(event.DefaultStages)
	must(t, err)
	ch := engine.Database(t)
	db, err := clickhouse.Open(ch)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return &bench{
		t: t, nc: nc, js: js, ch: ch, db: db, dir: t.TempDir(), stages: stages, groups: 1,
		truth: truth{
			seen: map[string]bool{}, count: map[string]uint64{}, articles: map[string]map[string]bool{},
			sources: map[string]uint64{},
		},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish stores a message and counts what has to come of it.
func (b *bench) publish(subject string, text []byte) {
	b.t.Helper()
	ack, err := b.js.Publish(b.t.Context(), subject, text)
	must(b.t, err)
	b.truth.last = ack.Sequence
	var r event.Record
	if event.Decode(text, &r) != nil || r.Validate(b.stages, time.Now(), true) != nil ||
		!stream.MatchesSubject(subject, r.Stage, r.URLHash) {
		b.truth.invalid++
		return
	}
	if id := r.MessageID(); !b.truth.seen[id] {
		b.truth.seen[id] = true
		stage := string(r.Stage)
		b.truth.count[stage]++
		if b.truth.articles[stage] == nil {
			b.truth.articles[stage] = map[string]bool{}
		}
		b.truth.articles[stage][string(r.ArticleURL)] = true
		b.truth.sources[string(r.SourceName)+"/"+stage]++
	}
}

// history publishes n random messages: new ones, repeats of old ones,
// backfills, invalid ones.
func (b *bench) history(rng *rand.Rand, n int, sent *[][2]string) {
	b.t.Helper()
	for range n {
		switch k := rng.IntN(20); {
		case k < 4 && len(*sent) > 0:
			m := (*sent)[rng.IntN(len(*sent))]
			b.publish(m[0], []byte(m[1]))
		case k == 4:
			b.publish("events.crawled.00", []byte([]string{"", "{}", "no json", `{"article_url":"x"}`}[rng.IntN(4)]))
		default:
			subject, text := b.event(rng)
			*sent = append(*sent, [2]string{subject, string(text)})
			b.publish(subject, text)
		}
	}
}

func (b *bench) event(rng *rand.Rand) (subject string, text []byte) {
	e := event.Event{
		ArticleURL: fmt.Sprintf("https://example.com/%d", rng.IntN(300)),
		SourceName: fmt.Sprintf("source %d", rng.IntN(5)), ServiceName: "test",
		Stage:      b.stages.Names()[rng.IntN(5)],
		OccurredAt: time.Now().Add(-time.Duration(rng.Int64N(int64(20 * time.Hour)))),
		Metadata:   map[string]any{"quality_score": rng.IntN(100), "topics": []string{"crime", "news"}[:rng.IntN(3)]},
	}
	if rng.IntN(10) == 0 {
		e.OccurredAt = e.OccurredAt.AddDate(-rng.IntN(3), 0, -rng.IntN(90))
		e.Metadata["backfilled"] = true
	}
	text, err := json.Marshal(e)
	must(b.t, err)
	var r event.Record
	if err := event.Decode(text, &r); err != nil {
		b.t.Fatal(err)
	}
	return stream.EventSubject(e.Stage, r.URLHash), text
}

// start runs a projector on the bench's folder; stop ends it.
func (b *bench) start(change func(*pipeline.Config)) (stop func()) {
	b.t.Helper()
	cfg := pipeline.Config{Stages: b.stages, Dir: b.dir, MinInterval: time.Millisecond, SlotGroups: b.groups}
	if change != nil {
		change(&cfg)
	}
	log := embeddedtest.Log(b.t)
	if b.hear != nil {
		log = slog.New(ear{log.Handler(), b.hear})
	}
	p, err := pipeline.New(cfg, b.nc, b.ch, prometheus.NewRegistry(), log)
	must(b.t, err)
	if b.wrap != nil {
		p.WrapBucket(b.wrap)
	}
	return embeddedtest.Go(b.t, p.Run)
}

// reach waits until everything up to a sequence is durable.
func (b *bench) reach(seq uint64) {
	b.t.Helper()
	reached := map[string]bool{}
	b.watch(fmt.Sprintf("sequence %d", seq), func(key string, r funnel.Checkpoint) bool {
		if max(r.From, r.CaughtUp) >= seq && r.From == r.To {
			reached[key] = true
		}
		return len(reached) == int(b.groups)
	})
}

// watch follows the checkpoints of all groups until done says so.
func (b *bench) watch(what string, done func(key string, r funnel.Checkpoint) bool) {
	b.t.Helper()
	kv, err := b.js.KeyValue(b.t.Context(), stream.Checkpoints)
	must(b.t, err)
	w, err := kv.Watch(b.t.Context(), "funnel.*")
	must(b.t, err)
	defer w.Stop()
	timeout := time.After(time.Minute)
	for {
		select {
		case entry := <-w.Updates():
			var r funnel.Checkpoint
			if entry != nil && json.Unmarshal(entry.Value(), &r) == nil && done(entry.Key(), r) {
				return
			}
		case <-timeout:
			b.t.Fatalf("waiting for %s", what)
		}
	}
}

// decide writes a checkpoint as a projector leaves it that is killed while it
// applies a batch.
func (b *bench) decide(from, to uint64) {
	b.t.Helper()
	kv, err := b.js.KeyValue(b.t.Context(), stream.Checkpoints)
	must(b.t, err)
	_, err = kv.Put(b.t.Context(), "funnel.0", fmt.Appendf(nil, `{"from":%d,"to":%d}`, from, to))
	must(b.t, err)
}

// check compares every view with the recount.
func (b *bench) check() {
	b.t.Helper()
	ctx := b.t.Context()
	events := map[string][2]uint64{}
	rows, err := b.db.Query(ctx,
		"SELECT stage, count(), uniqExact(article_url), uniqExact(identity) FROM events GROUP BY stage")
	must(b.t, err)
	for rows.Next() {
		var stage string
		var n, articles, ids uint64
		must(b.t, rows.Scan(&stage, &n, &articles, &ids))
		events[stage] = [2]uint64{n, articles}
		if ids != n {
			b.t.Errorf("%s has %d rows of %d identities", stage, n, ids)
		}
	}
	must(b.t, rows.Err())
	if want := b.truth.stages(); !reflect.DeepEqual(events, want) {
		b.t.Errorf("events are  %v\nshould be %v", events, want)
	}
	b.checkFunnel()
	dlq, err := b.js.Stream(ctx, stream.DLQ)
	must(b.t, err)
	if n := dlq.CachedInfo().State.Msgs; int(n) != b.truth.invalid {
		b.t.Errorf("%d dead letters, want %d", n, b.truth.invalid)
	}
}

// stages is the events and articles of each stage.
func (t truth) stages() map[string][2]uint64 {
	all := map[string][2]uint64{}
	for stage, n := range t.count {
		all[stage] = [2]uint64{n, uint64(len(t.articles[stage]))}
	}
	return all
}

// checkFunnel compares the funnel's rows with the recount.
func (b *bench) checkFunnel() {
	b.t.Helper()
	ctx, want, sketched := b.t.Context(), b.truth.stages(), map[string][2]uint64{}
	for _, width := range funnel.Widths {
		clear(sketched)
		sources := map[string]uint64{}
		sets := map[string]*funnel.Set{}
		rows, err := b.db.Query(ctx, "SELECT source, stage, events, article_set FROM funnel FINAL WHERE width = ?",
			uint32(width))
		must(b.t, err)
		for rows.Next() {
			var source, stage, text string
			var n uint64
			must(b.t, rows.Scan(&source, &stage, &n, &text))
			if source != funnel.AllSources {
				sources[source+"/"+stage] += n
				continue
			}
			var s funnel.Set
			must(b.t, s.UnmarshalBinary([]byte(text)))
			if sets[stage] == nil {
				sets[stage] = new(funnel.Set)
			}
			must(b.t, sets[stage].Merge(&s))
			sketched[stage] = [2]uint64{sketched[stage][0] + n, sets[stage].Estimate()}
		}
		must(b.t, rows.Err())
		if !reflect.DeepEqual(sketched, want) { // sparse sketches of 300 articles are exact
			b.t.Errorf("funnel of width %d is %v\nshould be %v", width, sketched, want)
		}
		if !reflect.DeepEqual(sources, b.truth.sources) {
			b.t.Errorf("sources of width %d are %v\nshould be %v", width, sources, b.truth.sources)
		}
	}
}

// TestHistory folds a random history with repeats far outside the broker's
// window, with restarts, and with batches cut at random (invariants 1 to 8).
func TestHistory(t *testing.T) {
	slowtest.Mark(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t)
	var sent [][2]string
	for range 6 {
		stop := b.start(func(c *pipeline.Config) { c.BatchRows = 1 + rng.IntN(200) })
		b.history(rng, 50+rng.IntN(400), &sent)
		if rng.IntN(2) == 0 {
			b.reach(b.truth.last)
		}
		stop()
		if rng.IntN(3) == 0 { // the key store is lost
			must(t, os.RemoveAll(b.dir+"/keys"))
		}
	}
	stop := b.start(nil)
	b.reach(b.truth.last)
	stop()
	b.check()
}

// TestDecidedBatchIsCompleted holds invariants 3 to 6: a batch that was
// decided, and of which some effects are there already, is completed and not
// applied again, whatever size batches would have now.
func TestDecidedBatchIsCompleted(t *testing.T) {
	slowtest.Mark(t)
	// tokens, as a loss of power does
	forget := "ALTER TABLE " + engine.Rows("events") + " MODIFY SETTING non_replicated_deduplication_window = 0"
	for name, damage := range map[string][]string{
		"nothing landed":                     {"TRUNCATE TABLE " + engine.Rows("events")},
		"some landed":                        {"DELETE FROM " + engine.Rows("events") + " WHERE seq % 3 = 0"},
		"all landed":                         nil,
		"all landed, its token forgotten":    {forget},
		"some landed, their token forgotten": {forget, "DELETE FROM " + engine.Rows("events") + " WHERE seq % 3 = 0"},
		"funnel missing":                     {"TRUNCATE TABLE " + engine.Rows("funnel")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			rng := rand.New(rand.NewPCG(5, 1))
			var sent [][2]string
			b.history(rng, 300, &sent)
			b.decide(0, b.truth.last)
			stop := b.start(nil)
			b.reach(b.truth.last)
			stop()
			for _, statement := range damage {
				must(t, b.db.Exec(t.Context(), statement))
			}
			b.decide(0, b.truth.last)
			b.history(rng, 100, &sent)
			stop = b.start(func(c *pipeline.Config) { c.BatchRows = 7 })
			b.reach(b.truth.last)
			stop()
			b.check()
		})
	}
}

// TestTakeover holds invariant 3 for two projectors of one slot group: the
// second stands by, and takes over when the first has released the group.
func TestTakeover(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(9, 1))
	var sent [][2]string
	first := b.start(func(c *pipeline.Config) { c.Lease = 2 * time.Second })
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	other := t.TempDir()
	second := b.start(func(c *pipeline.Config) { c.Lease, c.Dir = 2*time.Second, other })
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	first()
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	second()
	b.check()
}

// TestRebalance holds every invariant while one projector becomes four and
// one again, in four slot groups, with events under way and some that no slot
// is for.
func TestRebalance(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t)
	b.groups = 4
	var sent [][2]string
	var stops []func()
	join := func() {
		dir := t.TempDir()
		stops = append(stops, b.start(func(c *pipeline.Config) {
			c.Dir, c.Lease, c.BatchRows = dir, time.Second, 1+rng.IntN(200)
		}))
	}
	// shared waits until as many projectors own the groups.
	shared := func(n int) {
		t.Helper()
		owners := map[string]string{}
		b.watch(fmt.Sprintf("%d owners", n), func(key string, r funnel.Checkpoint) bool {
			owners[key] = r.Owner
			distinct := map[string]bool{}
			for _, o := range owners {
				distinct[o] = true
			}
			return len(owners) == 4 && len(distinct) == n && !distinct[""]
		})
	}
	join()
	shared(1)
	b.history(rng, 300, &sent)
	for range 3 {
		join()
		b.history(rng, 100, &sent)
	}
	shared(4)
	b.history(rng, 200, &sent)
	b.publish("events.crawled.stray", []byte("{}"))
	for _, stop := range stops[:3] {
		stop()
		b.history(rng, 100, &sent)
	}
	shared(1)
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	b.check()
}

// TestUnfit: what a projector can't fold, because ClickHouse can't be reached
// from where it runs, is folded by another one, who holds its own share already.
func TestUnfit(t *testing.T) {
	slowtest.Mark(t)
	b := newBench(t)
	b.groups = 4
	reachable := b.ch
	b.ch = &clickhouse.Options{Addr: []string{"127.0.0.1:1"}}
	owns := func(groups int) func(key string, r funnel.Checkpoint) bool {
		owned := map[string]bool{}
		return func(key string, r funnel.Checkpoint) bool {
			owned[key] = r.Owner != ""
			n := 0
			for _, yes := range owned {
				if yes {
					n++
				}
			}
			return n == groups
		}
	}
	join := func() {
		dir := t.TempDir()
		b.start(func(c *pipeline.Config) { c.Dir, c.Lease = dir, time.Second })
	}
	join()
	b.watch("all groups in the hands of one that is cut off", owns(4))
	b.ch = reachable
	join()
	var sent [][2]string
	b.history(rand.New(rand.NewPCG(5, 1)), 200, &sent)
	b.reach(b.truth.last)
	b.check()
}

func TestDeadLetterSaysWhy(t *testing.T) {
	b := newBench(t)
	b.publish("events.crawled.00", []byte(`{"article_url":"https://example.com/1","source_name":"s",`+
		`"stage":"shipped","occurred_at":"2026-01-01T00:00:00Z","service_name":"t"}`))
	stop := b.start(nil)
	defer stop()
	b.reach(b.truth.last)
	dlq, err := b.js.Stream(t.Context(), stream.DLQ)
	must(t, err)
	m, err := dlq.GetLastMsgForSubject(t.Context(), stream.DeadLetterSubject(stream.Events, b.truth.last))
	must(t, err)
	for header, want := range map[string]string{
		stream.HeaderField: "stage", stream.HeaderCode: "stage_unknown", stream.HeaderSubject: "events.crawled.00",
		stream.HeaderStream: stream.Events, stream.HeaderSeq: "1",
	} {
		if got := m.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	if reason := m.Header.Get(stream.HeaderReason); !strings.Contains(reason, "crawled, indexed") {
		t.Errorf("reason is %q", reason)
	}
}

// TestUnansweredLetter holds invariant 8 when a letter is not acknowledged,
// which is what a broker without room on its disk does: it is sent again.
func TestUnansweredLetter(t *testing.T) {
	slowtest.Mark(t)
	b := newBench(t)
	must(t, b.js.DeleteStream(t.Context(), stream.DLQ))
	sent, err := b.nc.SubscribeSync(stream.DLQSubjects) // takes letters, and says nothing
	must(t, err)
	b.publish("events.crawled.00", []byte("no event"))
	stop := b.start(nil)
	defer stop()
	for range 2 {
		_, err := sent.NextMsg(30 * time.Second)
		must(t, err)
	}
	must(t, stream.Ensure(t.Context(), b.js, stream.Config{DedupWindow: 100 * time.Millisecond}))
	must(t, sent.Unsubscribe())
	b.reach(b.truth.last)
	b.check()
}
