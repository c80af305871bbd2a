package emit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

func stages(t testing.TB) event.Stages {
	t.Helper()
	s, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var now = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)

func line(n int) string {
	return fmt.Sprintf(`{"article_url":"https://example.com/%d","source_name":"s","stage":"crawled",`+
		`"occurred_at":"%s","service_name":"crawler","metadata":{"n":%d}}`, n, now, n)
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

func run(t testing.TB, s *natstest.Server, in io.Reader, cfg Config) Report {
	t.Helper()
	cfg.NATS, cfg.Stages = s.Connect(), stages(t)
	report, err := Run(t.Context(), in, cfg)
	if err != nil {
		t.Error(err)
	}
	return report
}

func want(t testing.TB, got Report, accepted, duplicates, rejected int) {
	t.Helper()
	if got.Accepted != accepted || got.Duplicates != duplicates || got.Rejected != rejected {
		t.Errorf("%v; want %d accepted, %d duplicates, %d rejected", got, accepted, duplicates, rejected)
	}
}

func eachOnce(t testing.TB, s *natstest.Server, total int) {
	t.Helper()
	ids := s.IDs()
	for id, n := range ids {
		if n != 1 {
			t.Errorf("%s is stored %d times", id, n)
		}
	}
	if len(ids) != total {
		t.Errorf("%d events are stored, want %d", len(ids), total)
	}
}

func TestLines(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	var errs, rejects, bar bytes.Buffer
	in := lines(0, 2500) + "\n  \n" + line(7) + "\r\nnothing\n" +
		strings.Replace(line(9), "crawled", "cooked", 1) + "\n" +
		`{"x":"` + strings.Repeat("x", 3<<20) + "\"}\n" +
		`{"x":"` + strings.Repeat("y", 200_000) + "\"}\n" + line(2500)
	got := run(t, s, strings.NewReader(in), Config{
		Errors: &errs, Rejects: &rejects, Progress: &bar,
		Size: int64(len(in)),
	})
	want(t, got, 2501, 1, 4)
	eachOnce(t, s, 2501)
	wantErrs := []string{
		"line 2504: the event must be one JSON object (json)", "line 2505: stage: must be one of",
		"line 2506: the line is longer", "line 2507: the event must be at most",
	}
	for i, l := range strings.Split(strings.TrimSpace(errs.String()), "\n") {
		if i >= len(wantErrs) || !strings.HasPrefix(l, wantErrs[i]) {
			t.Errorf("reported: %s", l)
		}
	}
	if r := strings.Split(rejects.String(), "\n"); len(r) != 4 || r[0] != "nothing" ||
		!strings.Contains(r[1], "cooked") {
		t.Errorf("%d rejected lines are written", len(r)-1)
	}
	if bar.Len() == 0 {
		t.Error("there is no bar")
	}
	want(t, run(t, s, strings.NewReader(""), Config{}), 0, 0, 0)
	eachOnce(t, s, 2501)
	// Nobody is there who knows the events: they go again, and count once.
	want(t, run(t, s, strings.NewReader(in), Config{}), 2501, 1, 4)
	if n := len(s.IDs()); n != 2501 {
		t.Errorf("%d events are stored", n)
	}
}

// TestManyRejects: however many lines are rejected, each rule is told once as it is
// first broken, and at the end with its count.
func TestManyRejects(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	var errs bytes.Buffer
	cooked := strings.Replace(line(1), "crawled", "cooked", 1) + "\n"
	both := strings.Replace(cooked, now, "now", 1)
	in := strings.Repeat("x\n", 1234) + cooked + both + cooked + line(2)
	want(t, run(t, s, strings.NewReader(in), Config{Errors: &errs}), 1, 0, 1237)
	told := strings.Split(strings.TrimSpace(errs.String()), "\n")
	prefixes := []string{
		"line 1: the event must be one JSON object (json)", "line 1235: stage: must be one of",
		"line 1236: occurred_at: must be", "1237 lines were rejected, by rule:",
		"    1234  the event must be one JSON object (json), first line 1",
		"       3  stage: must be one of", "       1  occurred_at: must be",
	}
	for i, prefix := range prefixes {
		if len(told) != len(prefixes) || !strings.HasPrefix(told[i], prefix) {
			t.Fatalf("no line %q in its place in:\n%s", prefix, &errs)
		}
	}
	if !strings.HasSuffix(told[5], "(stage_unknown), first line 1235") {
		t.Error(told[5])
	}
}

// TestManyRules: the number of rules that are told apart is bounded.
func TestManyRules(t *testing.T) {
	var errs bytes.Buffer
	counts := newTally(Config{Errors: &errs, Rejects: io.Discard})
	for i := range 10_000 {
		counts.reject(i+1, nil, event.Invalid{Field: fmt.Sprint("metadata.", i), Code: "metadata_misspelt", Rule: "is"})
	}
	if _, err := counts.finish(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(errs.String(), "\n"); n != 2*shownRules+2 ||
		!strings.HasSuffix(errs.String(), "    9950  other rules\n") {
		t.Errorf("%d lines: %s", n, &errs)
	}
}

func TestBackfill(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	old := strings.Replace(strings.Replace(line(1), now, "2020-01-01T00:00:00Z", 1), `{"n":1}`,
		`{"backfilled":true}`, 1)
	want(t, run(t, s, strings.NewReader(old), Config{}), 1, 0, 0)
}

// A pipe that pauses: what it has brought so far is published meanwhile.
func TestTricklingInput(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	r, w := io.Pipe()
	done := make(chan Report, 1)
	go func() { done <- run(t, s, r, Config{}) }()
	nc := s.Connect()
	sub, err := nc.SubscribeSync(stream.EventSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		_, _ = io.WriteString(w, line(i)+"\n"+line(100 + i)[:20])
		_, _ = io.WriteString(w, line(100 + i)[20:]+"\n")
		for range 2 {
			if _, err := sub.NextMsg(5 * time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = w.Close()
	want(t, <-done, 6, 0, 0)
}

// A pipe that is silent for long: what it then brings is of that time.
func TestSilentInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		out, counts, done := make(chan *chunk), newTally(Config{Errors: io.Discard, Rejects: io.Discard}),
			make(chan error)
		go func() { done <- newReader(r, stages(t), counts).chunks(t.Context(), out) }()
		for range 3 {
			time.Sleep(time.Hour) // takes no time in here
			go func() {
				_, _ = io.WriteString(w, strings.Replace(line(1), now, time.Now().UTC().Format(time.RFC3339), 1)+"\n")
			}()
			synctest.Wait()
			select {
			case c := <-out:
				if len(c.msgs) != 1 {
					t.Errorf("%d events are published", len(c.msgs))
				}
			default:
				t.Errorf("nothing is published; %d lines are rejected", counts.report.Rejected)
			}
		}
		_ = w.Close()
		<-out // empty: the input has ended
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The server is not there yet when Run begins, and goes away again and again:
// nothing is lost (invariants 1 and 2). What is stored twice is the same event.
func TestRestarts(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	s.Stop()
	const total = 30_000
	reached := make(chan int, 100)
	in := &marked{r: strings.NewReader(lines(0, total)), every: 200_000, reached: reached}
	done := make(chan Report, 1)
	go func() { done <- run(t, s, in, Config{}) }()
	<-reached
	s.Start()
	for range 3 {
		for range 5 {
			<-reached
		}
		s.Stop()
		s.Start()
	}
	want(t, <-done, total, 0, 0)
	if n := len(s.IDs()); n != total {
		t.Errorf("%d events are stored, want %d", n, total)
	}
}

// marked says each time that so many bytes more have been read.
type marked struct {
	r       io.Reader
	n       int
	every   int
	reached chan<- int
}

func (m *marked) Read(p []byte) (int, error) {
	n, err := m.r.Read(p[:min(len(p), 64<<10)])
	if (m.n+n)/m.every > m.n/m.every {
		select {
		case m.reached <- m.n:
		default:
		}
	}
	m.n += n
	return n, err
}

func TestErrors(t *testing.T) {
	s := natstest.Start(t, stream.Config{MaxBytes: 100_000})
	cfg := Config{NATS: s.Connect(), Stages: stages(t)}
	if _, err := Run(t.Context(), strings.NewReader(lines(0, 3000)), cfg); err == nil ||
		!strings.Contains(err.Error(), "stream is full") {
		t.Errorf("a full stream: %v", err)
	}
	broken := io.MultiReader(strings.NewReader(lines(0, 2)), iotest.ErrReader(errors.New("disk on fire")))
	if got, err := Run(t.Context(), broken, cfg); err == nil || !strings.Contains(err.Error(), "read line 3") ||
		got.Accepted+got.Duplicates != 2 {
		t.Errorf("a broken input: %v, %v", got, err)
	}
	full := cfg
	full.Rejects = failingWriter{}
	if _, err := Run(t.Context(), strings.NewReader("x\n"), full); err == nil {
		t.Error("rejected lines that cannot be written are no error")
	}
	for _, bad := range []Config{{}, {NATS: cfg.NATS}, {NATS: cfg.NATS, Stages: cfg.Stages, InFlight: 99}} {
		if _, err := Run(t.Context(), strings.NewReader(""), bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestCancel(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	nc := s.Connect()
	s.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := Run(ctx, r, Config{NATS: nc, Stages: stages(t)}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	_, _ = io.WriteString(w, lines(0, 10))
	cancel()
	wg.Wait()
}

func BenchmarkRun(b *testing.B) {
	s := natstest.Start(b, stream.Config{})
	const n = 50_000
	at := 0
	for range b.N {
		b.StopTimer()
		in := strings.NewReader(lines(at, at+n))
		at += n
		b.StartTimer()
		want(b, run(b, s, in, Config{}), n, 0, 0)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
}
