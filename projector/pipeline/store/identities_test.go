package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
)

// sighting is what Identities says of an event.
type sighting struct {
	id          event.Identity
	fingerprint event.Fingerprint
}

// TestIdentities holds that ClickHouse finds the identity and the fingerprint of
// every row as package event does, also of rows that an earlier release has
// written, in which the identity of an event with a channel was another one; and
// that a row with a backfill's key has the computed identity as an alias.
func TestIdentities(t *testing.T) {
	const n, seed = 2000, 5
	rng := rand.New(rand.NewPCG(seed, 1))
	opts := engine.Database(t)
	s := open(t, opts)
	batch := store.Insert{Group: slots.Group{Of: 1}, To: n}
	block := events(t, store.Insert{}) // none
	want := map[uint64]map[sighting]bool{}
	for seq := uint64(1); seq <= n; seq++ {
		r := randomEvent(t, rng)
		now, stored := r.Identity(), r.Identity()
		if rng.IntN(2) == 0 { // of an earlier release: as if there were no channel
			stored = withoutChannel(t, r)
		}
		want[seq] = map[sighting]bool{{now, r.Fingerprint()}: true}
		if r.Meta.Backfilled && len(r.Meta.Channel) > 0 && strings.HasSuffix(string(r.IdempotencyKey), ":row-7") {
			computed := again(t, r, func(e map[string]any) { delete(e, "idempotency_key") })
			want[seq][sighting{computed.Identity(), r.Fingerprint()}] = false
		}
		block.Append(seq, r.OccurredAt, r, stored)
	}
	must(t, s.InsertEvents(t.Context(), batch, block))
	check := func() {
		t.Helper()
		got := map[uint64]map[sighting]bool{}
		must(t, s.Identities(t.Context(), batch.Group, 0, n, func(c store.Counted) error {
			if got[c.Seq] == nil {
				got[c.Seq] = map[sighting]bool{}
			}
			got[c.Seq][sighting{c.Identity, c.Fingerprint}] = !c.Alias
			return nil
		}))
		for seq, w := range want {
			if fmt.Sprint(got[seq]) != fmt.Sprint(w) {
				t.Fatalf("seed %d: sequence %d has %v, want %v", seed, seq, got[seq], w)
			}
		}
	}
	check()
	// What an earlier release has retired has no fingerprint.
	db, err := clickhouse.Open(opts)
	must(t, err)
	defer db.Close()
	must(t, db.Exec(
		t.Context(),
		"INSERT INTO retired_identities (month, seq, slot, identity) VALUES (202601, 9999, 7, unhex(repeat('ab', 16)))",
	))
	must(t, s.Identities(t.Context(), batch.Group, n, 10_000, func(c store.Counted) error {
		if c.Identity[0] != 0xab || c.Fingerprint != 0 || c.Seq != 9999 || c.Alias {
			t.Errorf("the retired event is %+v", c)
		}
		return nil
	}))
}

func randomEvent(t *testing.T, rng *rand.Rand) *event.Record {
	t.Helper()
	word := func() string {
		return []string{"", "a", "a:b", "100%", "@", "ü", "'\\", strings.Repeat("x", 40)}[rng.IntN(8)]
	}
	nanos := []int64{0, 120_000_000, 123_456_789, 1, 999_999_999, 500}[rng.IntN(6)]
	e := event.Event{
		ArticleURL: fmt.Sprint("https://example.com/", rng.IntN(1000)), SourceName: "source",
		ServiceName: "s:" + word(),
		Stage:       []string{"crawled", "published"}[rng.IntN(2)],
		OccurredAt:  time.Unix(1_700_000_000+rng.Int64N(10_000_000), nanos).UTC(),
		Metadata: map[string]any{
			"channel": word(), "model_version": word(), "is_reclassification": rng.IntN(2) == 0,
			"backfilled": rng.IntN(2) == 0,
		},
	}
	var r event.Record
	decode(t, &r, e)
	switch rng.IntN(4) {
	case 0:
		e.IdempotencyKey = "own" + word()
	case 1:
		e.IdempotencyKey = specified(t, &r)
	case 2:
		e.IdempotencyKey = specified(t, &r) + ":row-7"
	}
	decode(t, &r, e)
	return &r
}

func decode(t *testing.T, r *event.Record, e any) {
	t.Helper()
	text, err := json.Marshal(e)
	must(t, err)
	if invalid := event.Decode(text, r); invalid != nil {
		t.Fatal(invalid)
	}
}

// specified is the computed key without a channel.
func specified(t *testing.T, r *event.Record) string {
	t.Helper()
	bare := *r
	bare.IdempotencyKey, bare.Meta.Channel = nil, nil
	return string(bare.AppendKey(nil))
}

func withoutChannel(t *testing.T, r *event.Record) event.Identity {
	t.Helper()
	bare := *r
	bare.Meta.Channel = nil
	return bare.Identity()
}

// again returns the event with a change.
func again(t *testing.T, r *event.Record, change func(map[string]any)) *event.Record {
	t.Helper()
	e := map[string]any{
		"article_url": string(r.ArticleURL), "source_name": string(r.SourceName), "service_name": string(r.ServiceName),
		"stage":       string(r.Stage),
		"occurred_at": r.Time(), "idempotency_key": string(r.IdempotencyKey), "metadata": json.RawMessage(r.Metadata),
	}
	change(e)
	var out event.Record
	decode(t, &out, e)
	return &out
}
