package projector

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/projector/funnel"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/source"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// noRows is a database that has no funnel rows yet.
type noRows struct{}

func (noRows) Buckets(context.Context, func(contract.Width, uint32)) error { return nil }

func (noRows) Rows(context.Context, contract.Width, []uint32, func(contract.Key, funnel.Row)) error {
	return nil
}

// TestLetterOfItsOwn holds invariant 9: a letter that waits for its batch keeps
// its message alone, not the memory that was read with it.
func TestLetterOfItsOwn(t *testing.T) {
	f := folder{group: slots.Group{Of: 1}}
	f.begin(newBatch(nil))
	read := []byte("{}, and what was read with it")
	f.add(source.Message{Subject: []byte("events.crawled.00"), Data: read[:2], Seq: 1})
	if len(f.cur.letters) != 1 {
		t.Fatalf("%d letters of a message that is no event", len(f.cur.letters))
	}
	letter := f.cur.letters[0]
	clear(read)
	if string(letter.Data) != "{}" {
		t.Errorf("the letter has %q, which is a part of what was read", letter.Data)
	}
}

// BenchmarkFold is the cost of an event from message to sealed batch: decoding,
// columns, key store and funnel, without NATS and ClickHouse.
func BenchmarkFold(b *testing.B) {
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		b.Fatal(err)
	}
	keys, err := keystore.Open(b.Context(), b.TempDir(), keystore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer keys.Close()
	view, err := funnel.Open(b.Context(), funnel.Config{}, noRows{})
	if err != nil {
		b.Fatal(err)
	}
	f := folder{group: slots.Group{Of: 1}, stages: stages, keys: keys, view: view, durable: func() uint64 { return 1 << 62 }}
	batch := newBatch(stages.Names())
	f.begin(batch)
	messages := traffic(b, stages, 200_000)
	b.ReportAllocs()
	seq := uint64(0)
	for b.Loop() {
		m := messages[seq%uint64(len(messages))]
		seq++
		m.Seq = seq
		f.add(m)
		if f.cur.messages == 40_000 {
			if _, err := f.seal(b.Context()); err != nil {
				b.Fatal(err)
			}
			f.begin(batch)
		}
	}
}

// traffic returns messages as a day of live traffic has them: in order of
// time, 300 sources, five stages.
func traffic(b *testing.B, stages event.Stages, n int) []source.Message {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Now().Add(-20 * time.Hour)
	out := make([]source.Message, n)
	for i := range out {
		at := start.Add(time.Duration(i) * 20 * time.Hour / time.Duration(n))
		stage := stages.Names()[rng.IntN(5)]
		text := fmt.Appendf(nil, `{"article_url":"https://news.example.com/2026/02/10/a-longer-article-title-%d","source_name":"source_%d","stage":"%s","occurred_at":"%s","service_name":"classifier","metadata":{"quality_score":%d,"topics":["crime","news"],"content_type":"article","model_version":"v2.1","processing_time_ms":%d}}`,
			rng.IntN(n/5), rng.IntN(300), stage, at.UTC().Format(time.RFC3339Nano), rng.IntN(100), rng.IntN(500))
		var r event.Record
		if err := event.Decode(text, &r); err != nil {
			b.Fatal(err)
		}
		out[i] = source.Message{Subject: []byte(stream.EventSubject(stage, r.URLHash)), Data: text, Time: time.Now().UnixNano()}
	}
	return out
}
