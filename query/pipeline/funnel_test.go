package pipeline

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"
)

// sameFunnel compares an answer with a recount of the window it names.
func sameFunnel(t testing.TB, r *rig, query url.Values) Funnel {
	t.Helper()
	var f Funnel
	r.Must("/funnel", query, &f)
	to := f.To
	if f.Period != "custom" {
		to = to.Add(reads.WindowAhead)
	}
	want := r.recount(query.Get("source"), f.From, to)
	if f.UniqueMethod == "exact" {
		if f.UniqueError != 0 || !reflect.DeepEqual(f.Stages, want) {
			t.Fatalf("%v: %+v, want %+v", query, f, want)
		}
		return f
	}
	if f.UniqueError != 3*funnel.StandardError {
		t.Errorf("%v: error %g", query, f.UniqueError)
	}
	for i, s := range f.Stages {
		unique := float64(want[i].UniqueArticles)
		off := math.Abs(float64(s.UniqueArticles) - unique)
		if s.Name != want[i].Name || s.Count != want[i].Count || off > f.UniqueError*unique+1 {
			t.Fatalf("%v: %+v, want %+v", query, f, want)
		}
	}
	return f
}

// sameFunnels compares funnels with a recount: each kind of window with each way
// to count, each of these with each source.
func sameFunnels(t *testing.T, r *rig) {
	t.Helper()
	sources := []string{"", "source-1", "nobody"}
	zones := []string{"", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"}
	from := r.now().Add(-77 * time.Hour)
	ends := []time.Time{
		from.Add(1), from.Add(7 * time.Minute), from.Add(50*time.Hour + 3*time.Second), r.now().Add(time.Minute),
	}
	for i, uniques := range []string{"", "exact", "sketch"} {
		query := func(n int, pairs ...string) url.Values {
			return viewtest.Values(append(pairs, "uniques", uniques, "source", sources[(i+n)%len(sources)])...)
		}
		for n, zone := range zones {
			sameFunnel(t, r, query(n, "tz", zone))
		}
		for n, period := range []string{"24h", "7d", "30d"} {
			f := sameFunnel(t, r, query(n, "period", period))
			if uniques != "" && f.UniqueMethod != uniques {
				t.Errorf("asked for %s, got %s", uniques, f.UniqueMethod)
			}
		}
		begin := from.Format(time.RFC3339Nano)
		for n, to := range ends {
			sameFunnel(t, r, query(n, "from", begin, "to", to.Format(time.RFC3339Nano)))
		}
		open := sameFunnel(t, r, query(0, "from", begin))
		if now := r.now().Truncate(time.Millisecond); open.Period != reads.Custom || !open.To.Equal(now) {
			t.Errorf("a window without an end ends at %s, want %s", open.To, now)
		}
	}
}

// TestFunnel compares every kind of window with a recount: as loaded, after
// deltas, with late events and after a lost delta, for a mirror that holds all
// articles and for one that holds next to none.
func TestFunnel(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"exact": {}, "sketch": {ExactEvents: 20}} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			r := newRig(t, options{Config: cfg, before: func(r *rig) {
				r.writer.Write(viewtest.Draw(rng, noon, 700)...)
				r.writer.Write(viewtest.Draw(rng, noon, 500)...)
				viewtest.Checkpoint(t.Context(), t, r.js, 1200)
			}})
			if got := r.svc.mirror.Position().Folded; got != 1200 {
				t.Errorf("folded up to %d after the load", got)
			}
			sameFunnels(t, r)
			r.write(viewtest.Draw(rng, noon, 100)...)
			r.write(viewtest.Draw(rng, noon.Add(72*time.Hour), 30)...) // the broker's clock was fast
			r.clock.Add(int64(3*time.Minute + time.Millisecond))
			sameFunnels(t, r)

			r.writer.Write(viewtest.Draw(rng, r.now(), 50)...) // its delta is lost
			r.write(viewtest.Draw(rng, r.now(), 20)...)
			r.until(func() bool { return r.svc.mirror.Stats().Loads == 2 })
			r.clock.Add(int64(20 * time.Minute))
			sameFunnels(t, r)
		})
	}
}

// TestBatchUnderWayAtStart: a service that starts while a batch is written in
// part does not say that it is counted, nor shows less than another one may
// have shown before.
func TestBatchUnderWayAtStart(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 2))
	told := make(chan struct{})
	r := newRig(t, options{before: func(r *rig) {
		viewtest.Checkpoint(t.Context(), t, r.js, r.writer.Write(viewtest.Draw(rng, noon, 300)...).To)
		d, complete := r.writer.Begin(viewtest.Draw(rng, noon, 200)...)
		go func() {
			defer close(told)
			var f Funnel
			status := r.Get("/funnel", viewtest.Values("period", "24h"), &f)
			if status != http.StatusServiceUnavailable {
				t.Errorf("status %d: %v, said to be counted up to %d", status, f.Stages, f.Stream.FoldedSeq)
			}
			complete()
			viewtest.Announce(t, r.nc, d)
		}()
	}})
	<-told
	sameFunnels(t, r)
}

// TestLostLastDelta: the checkpoint shows that a delta did not arrive, though
// none comes after it.
func TestLostLastDelta(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(viewtest.Draw(rand.New(rand.NewPCG(3, 4)), noon, 10)...)
	d := r.writer.Write(viewtest.Draw(rand.New(rand.NewPCG(5, 6)), noon, 10)...)
	viewtest.Checkpoint(t.Context(), t, r.js, d.To)
	go func() {
		for r.svc.mirror.Position().Folded < d.To && t.Context().Err() == nil {
			r.clock.Add(int64(time.Millisecond)) // time passes for as long as it has to
			<-time.After(time.Millisecond)
		}
	}()
	r.until(func() bool { return r.svc.mirror.Position().Folded >= d.To })
	sameFunnel(t, r, viewtest.Values("period", "7d"))
}

func TestFunnelSaysHowFarBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for range 3 {
		if _, err := r.js.Publish(t.Context(), stream.EventSubject("crawled", [32]byte{}), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	var f Funnel
	r.Must("/funnel", nil, &f)
	if f.Stream != (StreamPosition{LastSeq: 3, Behind: 3}) {
		t.Errorf("stream %+v", f.Stream)
	}
	r.write(viewtest.Draw(rand.New(rand.NewPCG(1, 1)), noon, 2)...)
	r.Must("/funnel", nil, &f)
	if f.Stream != (StreamPosition{LastSeq: 3, FoldedSeq: 2, Behind: 1}) {
		t.Errorf("stream %+v", f.Stream)
	}
	if !f.GeneratedAt.Equal(noon) || !f.To.Equal(noon) || !f.From.Equal(noon.Truncate(24*time.Hour)) ||
		f.Period != "today" || f.Timezone != "UTC" {
		t.Errorf("%+v", f)
	}
}

func testBadRequests(t *testing.T, r *rig) {
	long := string(make([]byte, 3000))
	for _, tc := range []struct{ path, query, field string }{
		{"/funnel", "period=1h", "period"},
		{"/funnel", "tz=Mars%2FOlympus", "tz"},
		{"/funnel", "tz=UTC'%20OR%201=1--", "tz"},
		{"/funnel", "from=2126-01-01T00:00:00Z", "from"},
		{"/funnel", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to"},
		{"/funnel", "from=yesterday&to=2026-01-01T00:00:00Z", "from"},
		{"/funnel", "period=today&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", "period"},
		{"/funnel", "uniques=roughly", "uniques"},
		{"/funnel", "source=a%00b", "source"},
		{"/funnel", "source=%ff", "source"},
		{"/funnel", viewtest.Values("source", long).Encode(), "source"},
		{"/funnel/sources", "limit=0", "limit"},
		{"/funnel/sources", "limit=1001", "limit"},
		{"/funnel/sources", "tz=Local", "tz"},
		{"/funnel/sources", "q=%01", "q"},
		{"/funnel/sources", "cursor=nonsense", "cursor"},
		{"/events", "limit=-1", "limit"},
		{"/events", "limit=many", "limit"},
		{"/events", "cursor=nonsense", "cursor"},
		{"/events", "stage=unheard-of", "stage"},
		{"/events", "url_hash=abc", "url_hash"},
		{"/events", "from=now", "from"},
		{"/events", "from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", "to"},
		{"/events", "service=%01", "service"},
		{"/events", viewtest.Values("article_url", long).Encode(), "article_url"},
		{"/articles/xyz/journey", "", "url_hash"},
	} {
		var p httpapi.Problem
		query, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		status := r.For(t).Get(tc.path, query, &p)
		if status != http.StatusBadRequest || len(p.Errors) != 1 || p.Errors[0].Field != tc.field ||
			p.Errors[0].Rule == "" {
			t.Errorf("%s?%.80s: %d %+v", tc.path, tc.query, status, p)
		}
	}
}

// TestDatabaseAway: what the mirror holds is still answered, the rest is a
// problem that says so.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(
		event.Event{
			ArticleURL: "https://example.com/", SourceName: "a", Stage: "crawled", OccurredAt: noon,
			ServiceName: "test",
		},
	)
	if err := r.svc.deps.ClickHouse.Close(); err != nil {
		t.Fatal(err)
	}
	sameFunnel(t, r, nil)
	for _, path := range []string{"/events", "/funnel/sources"} {
		var p httpapi.Problem
		if status := r.Get(path, nil, &p); status != http.StatusServiceUnavailable || p.Status != status {
			t.Errorf("%s: %d %+v", path, status, p)
		}
	}
	var p httpapi.Problem
	if status := r.Get("/funnel", viewtest.Values("source", "not held"), &p); status != http.StatusServiceUnavailable {
		t.Errorf("a source that is not held: %d %+v", status, p)
	}
	if err := r.svc.Checks()[0].Probe(t.Context()); err == nil {
		t.Error("the check does not see it")
	}
}
