package event

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func decoded(t testing.TB, r *Record, e Event) []byte {
	t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if invalid := Decode(text, r); invalid != nil {
		t.Fatal(invalid)
	}
	return text
}

// TestChannelsAndVersions: no two pairs of a model's version and a channel have
// one identity, whatever separators they hold.
func TestChannelsAndVersions(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	word := func() string {
		parts := make([]string, rng.IntN(4))
		for i := range parts {
			parts[i] = []string{"a", ":", "@", "%", "%3A", "%25", "/"}[rng.IntN(7)]
		}
		return strings.Join(parts, "")
	}
	e := Event{ArticleURL: "https://a.b/", SourceName: "s", Stage: "published", ServiceName: "p"}
	e.OccurredAt = mustTime(t, "2026-02-10T14:30:00Z")
	var r Record
	pairs := map[Identity][2]string{}
	for range 20_000 {
		pair := [2]string{word(), word()}
		e.Metadata = map[string]any{"is_reclassification": true, "model_version": pair[0], "channel": pair[1]}
		decoded(t, &r, e)
		id := r.Identity()
		if other, ok := pairs[id]; ok && other != pair {
			t.Fatalf("%q and %q are %s", other, pair, r.MessageID())
		}
		pairs[id] = pair
	}
}

func TestFingerprint(t *testing.T) {
	var r Record
	e := Event{
		ArticleURL: "https://a.b/", SourceName: "s", Stage: "published", ServiceName: "p",
		OccurredAt: mustTime(t, "2026-02-10T14:30:00Z"),
	}
	decoded(t, &r, e)
	first := r.Fingerprint()
	for _, change := range []func(*Event){
		func(e *Event) { e.Stage = "routed" },
		func(e *Event) { e.ServiceName = "q" },
		func(e *Event) { e.Stage, e.ServiceName = "publishe", "dp" },
	} {
		other := e
		change(&other)
		decoded(t, &r, other)
		if !first.Conflicts(r.Fingerprint()) {
			t.Errorf("%s of %s does not conflict", other.Stage, other.ServiceName)
		}
	}
	if first.Conflicts(first) || first.Conflicts(0) || Fingerprint(0).Conflicts(first) {
		t.Error("what is the same, or not known, conflicts")
	}
}

// TestGiveOwnKey: an event gets the same key of its own however often, another
// service another one, and nothing else of it changes.
func TestGiveOwnKey(t *testing.T) {
	var r, again Record
	e := Event{
		ArticleURL: "https://a.b/<>", SourceName: "s", Stage: "routed", ServiceName: "p", IdempotencyKey: "taken",
		OccurredAt: mustTime(t, "2026-02-10T14:30:00Z"), Metadata: map[string]any{"n": 1},
	}
	text := decoded(t, &r, e)
	old := r.Identity()
	own, invalid := GiveOwnKey(text, &r)
	if invalid != nil || r.Identity() == old || bytes.Contains(own, []byte(`"taken"`)) ||
		r.Fingerprint().Conflicts(fingerprintOf(t, text)) {
		t.Fatalf("%s: %v", own, invalid)
	}
	if string(r.ArticleURL) != e.ArticleURL || string(r.Metadata) != `{"n":1}` ||
		r.OccurredAt != e.OccurredAt.UnixNano() {
		t.Errorf("changed to %s", own)
	}
	decoded(t, &again, e)
	if second, invalid := GiveOwnKey(text, &again); invalid != nil || !bytes.Equal(own, second) {
		t.Errorf("the second time %s: %v", second, invalid)
	}
	e.ServiceName = "q"
	text = decoded(t, &again, e)
	if _, invalid := GiveOwnKey(text, &again); invalid != nil || again.Identity() == r.Identity() {
		t.Errorf("another service gets the same key: %v", invalid)
	}
}

func fingerprintOf(t *testing.T, text []byte) Fingerprint {
	var r Record
	if invalid := Decode(text, &r); invalid != nil {
		t.Fatal(invalid)
	}
	return r.Fingerprint()
}

func mustTime(t testing.TB, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
