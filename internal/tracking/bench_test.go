package tracking_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// BenchmarkStartDone measures a start and a done of items in batches, by two
// workers at once.
func BenchmarkStartDone(b *testing.B) {
	const batch = 500
	s := newStore(b)
	var files []tracking.Registration
	for i := range (b.N + 99) / 100 {
		r := tracking.Registration{Filename: fmt.Sprintf("f%08d", i)}
		for j := range int32(100) {
			r.Shards = append(r.Shards, j)
		}
		files = append(files, r)
	}
	for len(files) > 0 {
		n := min(len(files), 100)
		if _, err := s.Register(b.Context(), files[:n]); err != nil {
			b.Fatal(err)
		}
		for _, f := range files[:n] {
			if _, err := s.FinishIngest(b.Context(), f.Filename, queue.Command{}); err != nil {
				b.Fatal(err)
			}
		}
		files = files[n:]
	}
	entries, err := s.Queues().Outbox(b.Context(), 1, b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	work := make(chan []queue.Entry)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for part := range work {
				commands := make([]queue.Command, len(part))
				for i, e := range part {
					commands[i] = queue.Command{ID: e.Item, Generation: e.Generation, Worker: "bench"}
				}
				for _, move := range []item.Move{item.Start, item.Complete} {
					results, err := s.Apply(b.Context(), shard.Splitter, move, commands)
					if err != nil {
						b.Error(err)
						return
					}
					for i, r := range results {
						if r.Outcome != item.Changed {
							b.Errorf("%s: %+v", move, r)
							return
						}
						commands[i].Generation = r.Generation
					}
				}
			}
		})
	}
	for len(entries) > 0 {
		n := min(batch, len(entries))
		work <- entries[:n]
		entries = entries[n:]
	}
	close(work)
	workers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}
