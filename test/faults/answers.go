package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"
)

// get asks the query service, and reads of the answer what is compared.
func get[T any](ctx context.Context, addr, path string) (answer T, err error) {
	body, err := fetch(ctx, http.MethodGet, "http://"+addr+"/api/v1"+path, "")
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		err = fmt.Errorf("GET %s: %w", path, err)
	}
	return answer, err
}

type httpFunnel struct {
	From   time.Time
	Stages []count
	Method string `json:"unique_method"`
	Stream struct {
		Folded uint64 `json:"folded_seq"`
	}
}

type httpStats struct {
	From        time.Time `json:"from"`
	DetailsFrom time.Time `json:"details_from"`
	Method      string    `json:"unique_method"`
	Sample      int       `json:"sample"`
	Cut         []string  `json:"cut"`
	stats
}

type httpDrift struct {
	GeneratedAt time.Time `json:"generated_at"`
	Sample      int       `json:"sample"`
	drift
}

type httpSources struct {
	Sources []httpSource `json:"sources"`
}

type httpSource struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

type httpEvents struct {
	Events []httpEvent `json:"events"`
	Next   string      `json:"next_cursor"`
}

// httpEvent is an event as GET /events and journeys have it. Times are texts,
// so that nothing of them gets lost.
type httpEvent struct {
	Seq       uint64 `json:"seq"`
	URL       string `json:"article_url"`
	Canonical string `json:"canonical_url"`
	Hash      string `json:"url_hash"`
	Domain    string `json:"domain"`
	Source    string `json:"source_name"`
	Stage     string `json:"stage"`
	At        string `json:"occurred_at"`
	Received  string `json:"received_at"`
	Service   string `json:"service_name"`
	Key       string `json:"idempotency_key"`
	Trace     string `json:"trace_id"`
	Version   uint16 `json:"metadata_schema_version"`
	Metadata  source `json:"metadata"`
}

// source is JSON as it stands.
type source string

func (s *source) UnmarshalJSON(text []byte) error {
	*s = source(text)
	return nil
}

func (e *told) event() httpEvent {
	metadata := source("null")
	if len(e.Metadata) > 0 {
		metadata = source(e.Metadata)
	}
	return httpEvent{
		Seq: e.seq, URL: e.URL, Canonical: e.Canonical, Hash: e.hash, Domain: e.domain, Source: e.Source,
		Stage: e.Stage,
		At:    stamp(e.at), Received: stamp(e.received), Service: e.Service, Key: e.key(), Trace: e.Trace,
		Version: e.Version, Metadata: metadata,
	}
}

func stamp(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }

// differ names the first place at which two answers differ, as JSON, numbers by
// more than rounding; empty: they do not.
func differ(got, want any) string { return differAt("", asJSON(got), asJSON(want)) }

// asJSON is an answer as maps, lists, texts and numbers.
func asJSON(answer any) (out any) {
	text, err := json.Marshal(answer)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err) // answers are made of what JSON has
	}
	return out
}

func differAt(place string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		if got, is := got.(map[string]any); is {
			return differMaps(place, got, want)
		}
	case []any:
		if got, is := got.([]any); is && len(got) == len(want) {
			for i := range want {
				if text := differAt(fmt.Sprint(place, "[", i, "]"), got[i], want[i]); text != "" {
					return text
				}
			}
			return ""
		}
	case float64:
		if got, is := got.(float64); is && near(got, want) {
			return ""
		}
	default:
		if got == want {
			return ""
		}
	}
	return fmt.Sprintf("%s is %v, want %v", place, got, want)
}

func differMaps(place string, got, want map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, there := got[key]
		if !there {
			return fmt.Sprintf("%s.%s is missing", place, key)
		}
		if text := differAt(place+"."+key, value, want[key]); text != "" {
			return text
		}
	}
	for key := range got {
		if _, known := want[key]; !known {
			return fmt.Sprintf("%s.%s is too much", place, key)
		}
	}
	return ""
}

// near tells whether two numbers differ by no more than the order in which
// floats are summed up may make.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }
