package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query/pipeline"
	"github.com/millrace-io/millrace/query/pipeline/events"
	"github.com/millrace-io/millrace/schemas/event"
)

// TestTold: what is read of an event anew is what the contract's package reads.
func TestTold(t *testing.T) {
	h := newHistory(4, 400, time.Now())
	scored, listed, sent, odd := 0, 0, 0, 0
	for range 500 {
		for _, it := range h.next().items {
			var r event.Record
			if it.fact == nil || event.Decode([]byte(it.body), &r) != nil {
				continue
			}
			e, err := tell(it.fact, 7, sighting{it.body, time.Unix(9, 1)})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := e.columns(), columnsOf(&r); !slices.Equal(got, want) {
				t.Fatalf("%s:\n%q\n%q", it.body, got, want)
			}
			if e.key() != string(r.AppendKey(nil)) {
				t.Fatalf("%s: %s", it.body, e.key())
			}
			scored, listed, sent = scored+btoi(e.meta.quality != nil), listed+btoi(len(e.meta.topics) > 1), sent+btoi(e.meta.channel != "")
			odd += btoi(e.domain == "www.example.com")
		}
	}
	if scored < 100 || listed < 100 || sent < 100 || odd < 100 {
		t.Errorf("%d with a score, %d with topics, %d with a channel, %d of a host with a port", scored, listed, sent,
			odd)
	}
}

// columnsOf are the columns of sequence 7, received at 9.000000001 s.
func columnsOf(r *event.Record) []string {
	var topics []byte
	for i, topic := range r.Meta.Topics {
		if i > 0 {
			topics = append(topics, '|')
		}
		topics = append(topics, topic...)
	}
	quality, id, hash := "", r.Identity(), hex.EncodeToString(r.URLHash[:])
	if !math.IsNaN(r.Meta.QualityScore) {
		quality = decimal(r.Meta.QualityScore)
	}
	return []string{
		hex.EncodeToString(id[:]), "7", fmt.Sprint(r.OccurredAt), "9000000001", string(r.Stage), string(r.SourceName),
		string(r.ServiceName),
		string(r.Domain), string(r.ArticleURL), hash, hash, string(r.CanonicalURL), string(r.TraceID),
		string(r.IdempotencyKey), string(r.Metadata),
		fmt.Sprint(r.MetadataSchemaVersion), quality, string(topics), string(r.Meta.ModelVersion),
		string(r.Meta.ContentType), string(r.Meta.Channel),
		fmt.Sprint(btoi(r.Meta.IsReclassification)), fmt.Sprint(btoi(r.Meta.IsDuplicate)),
		fmt.Sprint(btoi(r.Meta.Backfilled)),
	}
}

// TestReadMeta: what is of another type is absent.
func TestReadMeta(t *testing.T) {
	m, err := readMeta([]byte(`{"quality_score":"72","topics":["a",1],"model_version":2,"content_type":null,` +
		`"channel":["x"],"is_duplicate":"true","backfilled":1}`))
	if err != nil || m.quality != nil || m.topics != nil || m.model+m.content+m.channel != "" || m.duplicate ||
		m.backfilled {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestColumnNoticed: a wrong text in any column of the events table is found, a
// row that is there twice, and one of nobody.
func TestColumnNoticed(t *testing.T) {
	w := world(t, 20)
	byID := map[string]*told{}
	for _, e := range w.told {
		byID[e.fact.id] = e
	}
	right := w.told[3].columns()
	if names := strings.Fields(eventNames); len(names) != len(right) || names[0] != "identity" ||
		names[20] != "channel" {
		t.Fatalf("%d names of %d columns", len(names), len(right))
	}
	v, seen := &verdict{}, map[string]int{}
	if v.compareEvent(right, byID, seen); len(v.mismatches) > 0 || v.doubled != 0 {
		t.Fatalf("%q, doubled %d", v.mismatches, v.doubled)
	}
	if v.compareEvent(right, byID, seen); v.doubled != 1 {
		t.Error("a row that is there twice is not found")
	}
	for i := range right {
		row, v := slices.Clone(right), &verdict{}
		row[i] += "1"
		if v.compareEvent(row, byID, map[string]int{}); len(v.mismatches) != 1 {
			t.Errorf("column %d: %q", i, v.mismatches)
		}
	}
}

// world is the recount of some ticks of a history, of which everything has been
// received in its order and at its time.
func world(t *testing.T, ticks int) truth {
	t.Helper()
	h, seq := newHistory(6, 400, time.Now()), uint64(0)
	facts, j := map[string]*fact{}, &journal{first: map[string]uint64{}, said: map[string]sighting{}}
	for range ticks {
		for _, it := range h.next().items {
			now := h.begin.Add(time.Duration(h.ticks) * tick)
			if seq++; it.fact == nil || !it.fact.valid(now) || facts[it.fact.id] != nil {
				continue
			}
			facts[it.fact.id], j.first[it.fact.id], j.said[it.fact.id] = it.fact, seq, sighting{it.body, now}
		}
	}
	j.last = seq
	w, err := recount(facts, j)
	if err != nil || len(w.told) != len(facts) {
		t.Fatalf("%d of %d events, %v", len(w.told), len(facts), err)
	}
	return w
}

// TestFields: what is read of the answers has the names and the types that the
// query service gives it.
func TestFields(t *testing.T) {
	w := world(t, 300)
	f := httpFunnel{From: time.Unix(0, w.told[0].at), Stages: stages(w.told), Method: "exact"}
	for name, test := range map[string]struct{ read, of any }{
		"funnel": {map[string]any{
			"from": f.From, "stages": f.Stages, "unique_method": f.Method,
			"stream": map[string]int{"folded_seq": 1},
		}, new(pipeline.Funnel)},
		"stats": {httpStats{
			From: f.From, DetailsFrom: f.From, Method: "exact", Sample: 1, Cut: []string{"by_topic"},
			stats: newStats(w.told),
		}, new(pipeline.Stats)},
		"drift": {
			httpDrift{GeneratedAt: time.Now(), Sample: 1, drift: w.drift("", time.Now())},
			new(pipeline.Drift),
		},
		"events":   {httpEvents{[]httpEvent{w.told[0].event()}, "next"}, new(events.EventsPage)},
		"sources":  {w.bySize(), new(pipeline.Sources)},
		"articles": {httpArticles{w.slowest(crawled, published, 0)[:1], "next"}, new(events.ArticlesPage)},
		"journey":  {newJourney(w.furthest()[0]), new(events.Journey)},
	} {
		text, err := json.Marshal(test.read)
		if err != nil {
			t.Fatal(err)
		}
		known := json.NewDecoder(bytes.NewReader(text))
		known.DisallowUnknownFields()
		if err := known.Decode(test.of); err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}
