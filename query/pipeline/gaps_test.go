package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sampler/samplertest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// reaching are events of articles 0 to n that reach a stage at a time.
func reaching(stage string, n int, at time.Time) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		out[i] = event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/%d", i), SourceName: "s", Stage: stage, OccurredAt: at,
			ServiceName: "test",
		}
	}
	return out
}

func TestGaps(t *testing.T) {
	t.Parallel()
	rules := []Gap{{"indexed", "classified", 0.8}, {"routed", "published", 1}, {"cooked", "eaten", 0.5}}
	r := newRig(t, options{Config: Config{Gaps: rules}})
	r.write(reaching("indexed", 20, noon.Add(-10*time.Minute))...)
	r.write(reaching("classified", 30, noon.Add(-61*time.Minute))...) // before the hour
	r.write(reaching("classified", 15, noon.Add(-9*time.Minute))...)
	r.write(reaching("classified", 15, noon.Add(-8*time.Minute))...) // the same articles again
	gauges := r.svc.Gauges()
	want := map[string]string{
		`pipeline_gap_ratio{from="indexed",to="classified"}`:     "0.75",
		`pipeline_gap_threshold{from="indexed",to="classified"}`: "0.8",
		`pipeline_gap_threshold{from="routed",to="published"}`:   "1",
	}
	r.await("the ratios", func() bool { samplertest.Read(t, gauges); return r.svc.gaps.Load() != nil })
	for series, value := range samplertest.Read(t, gauges) {
		if strings.HasPrefix(series, "pipeline_") && want[series] != value {
			t.Errorf("%s is %s", series, value)
		}
		delete(want, series)
	}
	if len(want) > 0 {
		t.Errorf("absent: %v", want)
	}
	note := r.note("pipeline")
	if note.Warning != "classified is at 75 % of indexed over the last hour, under 80 %" {
		t.Errorf("warning %q", note.Warning)
	}
	r.write(reaching("classified", 16, noon.Add(-7*time.Minute))...) // exactly 80 %
	samplertest.Read(t, gauges)
	if warning := r.note("pipeline").Warning; warning != "" {
		t.Errorf("the gap has closed, and the warning is %q", warning)
	}
	r.clock.Add(int64(gapKeep) + 1)
	r.svc.gaps.Store(&ratios{r.now().Add(-gapKeep - 1), []ratio{{rules[0], 0}}})
	if warning := r.note("pipeline").Warning; warning != "" {
		t.Errorf("a look of long ago tells %q", warning)
	}
}

// await waits for what takes a while on a slow machine.
func (r *rig) await(what string, done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("waited in vain for", what)
		}
	}
}

// note is what /ready says of a part, without its second of memory.
func (r *rig) note(name string) httpapi.Note {
	r.t.Helper()
	for _, c := range r.svc.Checks() {
		if c.Name == name {
			return c.Note(r.t.Context())
		}
	}
	r.t.Fatal("no such check:", name)
	return httpapi.Note{}
}

func TestReadySaysHowFarBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for range 3 {
		if _, err := r.js.Publish(t.Context(), stream.EventSubject("crawled", [32]byte{}), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	r.write(reaching("crawled", 1, noon)...)
	note := r.note("projector")
	if note.Behind == nil || *note.Behind != 2 || note.BehindSeconds <= 0 || note.BehindSeconds > 3600 {
		t.Errorf("%+v", note)
	}
	r.write(reaching("crawled", 3, noon)[1:]...)
	if note := r.note("projector"); note.Behind == nil || *note.Behind != 0 || note.BehindSeconds != 0 {
		t.Errorf("%+v", note)
	}
}

// TestKnownGaps: no two rules have the same labels, which breaks /metrics.
func TestKnownGaps(t *testing.T) {
	got := knownGaps([]Gap{{"a", "b", 0.5}, {"b", "a", 1}, {"a", "x", 1}, {"a", "b", 0.7}}, []string{"a", "b"})
	if want := []Gap{{"b", "a", 1}, {"a", "b", 0.7}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestGapText(t *testing.T) {
	var g Gap
	if err := g.UnmarshalText([]byte("a:b:0.25")); err != nil || g != (Gap{"a", "b", 0.25}) {
		t.Error(g, err)
	}
	for _, text := range []string{"", "a:b", "a:b:c", "a:b:0", "a:b:1.1", "a:b:NaN", "a:b:1:2"} {
		if g.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
