package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/funnel"
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
	rows, err := funnel.Open(b.Context(), funnel.Config{}, noRows{})
	if err != nil {
		b.Fatal(err)
	}
	v := view{
		group: slots.Group{Of: 1}, stages: stages, keys: keys, funnel: rows, durable: func() uint64 { return 1 << 62 },
		batchRows: 40_000, batchBytes: 64 << 20, free: make(chan *batch, 1),
	}
	messages := traffic(b, stages, 200_000)
	b.ReportAllocs()
	seq, from := uint64(0), uint64(0)
	for b.Loop() {
		m := messages[seq%uint64(len(messages))]
		seq++
		m.Seq = seq
		v.Take(m)
		if seq-from == 40_000 {
			sealed, _, err := v.Seal(b.Context(), fold.Cut{From: from, To: seq})
			if err != nil {
				b.Fatal(err)
			}
			from = seq
			v.free <- sealed
		}
	}
}

// traffic returns messages as a day of live traffic has them: in order of
// time, 300 sources, five stages.
func traffic(b *testing.B, stages event.Stages, n int) []fold.Message {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Now().Add(-20 * time.Hour)
	out := make([]fold.Message, n)
	for i := range out {
		at := start.Add(time.Duration(i) * 20 * time.Hour / time.Duration(n))
		stage := stages.Names()[rng.IntN(5)]
		text := fmt.Appendf(nil, `{"article_url":"https://news.example.com/2026/02/10/a-longer-article-title-%d",`+
			`"source_name":"source_%d","stage":"%s","occurred_at":"%s","service_name":"classifier",`+
			`"metadata":{"quality_score":%d,"topics":["crime","news"],"content_type":"article",`+
			`"model_version":"v2.1","processing_time_ms":%d}}`,
			rng.IntN(n/5), rng.IntN(300), stage, at.UTC().Format(time.RFC3339Nano), rng.IntN(100), rng.IntN(500))
		var r event.Record
		if err := event.Decode(text, &r); err != nil {
			b.Fatal(err)
		}
		out[i] = fold.Message{Subject: stream.EventSubject(stage, r.URLHash), Data: text, Time: time.Now().UnixNano()}
	}
	return out
}
