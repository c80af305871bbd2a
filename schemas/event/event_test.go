package event

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type vector struct {
	Name, Event, Field, Code, Domain, Subject, Identity string
	ReceivedAt                                          time.Time `json:"received_at"`
	Valid                                               bool
	URLHash                                             string `json:"url_hash"`
	MessageID                                           string `json:"message_id"`
}

func vectors(t testing.TB) []vector {
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 50 {
		t.Fatalf("only %d vectors", len(file.Vectors))
	}
	return file.Vectors
}

func stages(t testing.TB) Stages {
	s, err := ParseStages(DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVectors(t *testing.T) {
	var r Record
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			err := Decode([]byte(v.Event), &r)
			if err == nil {
				err = r.Validate(stages(t), v.ReceivedAt, true)
			}
			if !v.Valid {
				if err == nil {
					t.Fatalf("accepted, want %s %s", v.Field, v.Code)
				}
				if err.Field != v.Field || err.Code != v.Code {
					t.Fatalf("refused for %s %s (%v), want %s %s", err.Field, err.Code, err, v.Field, v.Code)
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			id := r.Identity()
			got := [...]string{
				hex.EncodeToString(r.URLHash[:]), string(r.Domain), r.MessageID(),
				hex.EncodeToString(id[:]),
			}
			want := [...]string{v.URLHash, v.Domain, v.MessageID, v.Identity}
			if got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	var r Record
	text := `{"article_url":"https://a.b/","source_name":"s","stage":"classified","occurred_at":"2026-02-10T14:30:00Z","service_name":"c",
	 "metadata": {"quality_score":78.5,"topics":["crime","n\u0065ws"],"model_version":"v2.1","content_type":"article","channel":"a:b",
	 "is_reclassification":true,"is_duplicate":false,"backfilled":true,"deep":[[{}]]} }`
	if err := Decode([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	want := Metadata{
		QualityScore: 78.5, Topics: [][]byte{[]byte("crime"), []byte("news")}, ModelVersion: []byte("v2.1"),
		ContentType: []byte("article"), Channel: []byte("a:b"), IsReclassification: true, Backfilled: true,
	}
	if !reflect.DeepEqual(r.Meta, want) {
		t.Errorf("got %+v, want %+v", r.Meta, want)
	}
	if !json.Valid(r.Metadata) || r.Metadata[0] != '{' || r.Metadata[len(r.Metadata)-1] != '}' {
		t.Errorf("metadata text is %q", r.Metadata)
	}
}

// TestScoreBeyondBounds: the event is valid, and its score counts as absent.
func TestScoreBeyondBounds(t *testing.T) {
	for text, want := range map[string]float64{
		"1e9": 1e9, "-1e9": -1e9, "-0.5": -0.5,
		"1000000000.1": math.NaN(), "-1.7e308": math.NaN(), "1.7e308": math.NaN(), "1e999": math.NaN(),
	} {
		var r Record
		text := `{"article_url":"https://a.b/","source_name":"s","stage":"classified","occurred_at":"2026-02-10T14:30:00Z","service_name":"c",
		 "metadata":{"quality_score":` + text + `,"channel":"c"}}`
		if err := Decode([]byte(text), &r); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := r.Meta.QualityScore; got != want && !(math.IsNaN(got) && math.IsNaN(want)) ||
			string(r.Meta.Channel) != "c" {
			t.Errorf("%s: %+v, want a score of %g", text, r.Meta, want)
		}
	}
}

func TestBackfillNeedsPermission(t *testing.T) {
	var r Record
	text := `{"article_url":"https://a.b/","source_name":"s","stage":"crawled","occurred_at":"2020-02-10T14:30:00Z",` +
		`"service_name":"c","metadata":{"backfilled":true}}`
	if err := Decode([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(stages(t), time.Now(), false); err == nil || err.Code != "backfill_forbidden" {
		t.Errorf("got %v", err)
	}
}

func TestEventRoundTrip(t *testing.T) {
	zone := time.FixedZone("", 3600)
	e := Event{
		ArticleURL: "https://example.com/a?b=1&c=2", SourceName: "s", Stage: "crawled", ServiceName: "crawler",
		OccurredAt: time.Date(2026, 2, 10, 15, 30, 0, 5e8, zone), Metadata: map[string]any{"response_code": 200},
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	if err := Decode(text, &r); err != nil {
		t.Fatal(err)
	}
	if string(r.ArticleURL) != e.ArticleURL || !r.Time().Equal(e.OccurredAt) {
		t.Errorf("%s decodes to %q at %v", text, r.ArticleURL, r.Time())
	}
}

func TestParseStages(t *testing.T) {
	if _, err := ParseStages("submitted, checked,paid"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "a,,b", "a,a", "a b", "a.b", "A", strings.Repeat("x", 65)} {
		if _, err := ParseStages(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	var r Record
	text := []byte(vectors(t)[7].Event)
	if n := testing.AllocsPerRun(100, func() {
		if err := Decode(text, &r); err != nil {
			t.Fatal(err)
		}
		_ = r.Identity()
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// reference decodes with encoding/json, to compare with.
func reference(data []byte) (map[string]any, bool) {
	if !utf8.Valid(data) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var fields map[string]any
	err := dec.Decode(&fields)
	return fields, err == nil && fields != nil && json.Valid(data)
}

// FuzzDecode holds that Decode accepts only what encoding/json accepts, reads
// the same from it, and finds the host that net/url finds.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Event))
	}
	var r Record
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Decode(data, &r)
		fields, ok := reference(data)
		if err != nil {
			if err.Code == "json" && ok && len(data) < maxDepth {
				t.Fatalf("refused as no JSON, but encoding/json reads it: %q", data)
			}
			return
		}
		if !ok {
			t.Fatalf("accepted, but encoding/json refuses it: %q", data)
		}
		for name, got := range map[string][]byte{
			"source_name": r.SourceName, "stage": r.Stage, "service_name": r.ServiceName,
			"idempotency_key": r.IdempotencyKey, "trace_id": r.TraceID, "canonical_url": r.CanonicalURL,
		} {
			want, _ := fields[name].(string)
			if meta, _ := fields["metadata"].(map[string]any); name == "trace_id" && want == "" {
				if want, _ = meta[name].(string); checkName(name, []byte(want), MaxName, false) != nil {
					want = ""
				}
			}
			if want != string(got) {
				t.Fatalf("%s is %q, want %q", name, got, want)
			}
		}
		if len(r.Metadata) > 0 {
			meta, ok := reference(r.Metadata)
			if !ok {
				t.Fatalf("metadata is no object: %q", r.Metadata)
			}
			number, _ := meta["quality_score"].(json.Number)
			score, err := number.Float64()
			taken := err == nil && math.Abs(score) <= MaxScore
			if got := r.Meta.QualityScore; taken == math.IsNaN(got) || (taken && score != got) {
				t.Fatalf("quality score %v, want %v", r.Meta.QualityScore, meta["quality_score"])
			}
		}
		target := r.ArticleURL
		if len(r.CanonicalURL) > 0 {
			target = r.CanonicalURL
		}
		if u, err := url.Parse(string(target)); err == nil && u.Host != "" && !bytes.ContainsAny(target, `%\`) {
			if want := u.Hostname(); !strings.EqualFold(want, string(r.Domain)) {
				t.Fatalf("domain of %q is %q, want %q", target, r.Domain, want)
			}
		}
		if !utf8.ValidString(r.MessageID()) || strings.ContainsAny(r.MessageID(), "\r\n") {
			t.Fatalf("message id %q does not fit a header", r.MessageID())
		}
	})
}

// FuzzStages: every stage that is configured is one part of a subject, which no
// wildcard and no other stage matches.
func FuzzStages(f *testing.F) {
	for _, list := range []string{
		DefaultStages, "a, b,a", "*", ">", "a.b", "a\nb", "", ",", "é",
		strings.Repeat("x,", 100),
	} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		s, err := ParseStages(list)
		if err != nil {
			return
		}
		if len(s.Names()) == 0 || len(s.Names()) > MaxStages || len(s.Names()) != strings.Count(list, ",")+1 {
			t.Fatalf("%q has %d stages", list, len(s.Names()))
		}
		for i, name := range s.Names() {
			if at, ok := s.Index([]byte(name)); !ok || at != i || name == "" || len(name) > 64 ||
				strings.ContainsFunc(name, func(r rune) bool {
					return r > 'z' || r != '_' && r != '-' && (r < '0' || r > '9') && r < 'a'
				}) {
				t.Fatalf("%q: stage %d is %q, found at %d", list, i, name, at)
			}
		}
		if again, err := ParseStages(strings.Join(s.Names(), ",")); err != nil ||
			!slices.Equal(again.Names(), s.Names()) {
			t.Fatalf("%q: %v, and then %v, %v", list, s.Names(), again.Names(), err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	var r Record
	text := []byte(`{"article_url":"https://news.example.com/2026/02/10/some-longer-article-title-here",` +
		`"source_name":"example_com","stage":"classified","occurred_at":"2026-02-10T14:30:00.123456Z",` +
		`"service_name":"classifier","metadata":{"quality_score":78,"topics":["crime","news"],` +
		`"content_type":"article","model_version":"v2.1","processing_time_ms":120,"confidence":0.83}}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Decode(text, &r); err != nil {
			b.Fatal(err)
		}
		_ = r.Identity()
	}
}
