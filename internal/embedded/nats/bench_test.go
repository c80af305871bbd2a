package nats

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

var body = bytes.Repeat([]byte("x"), 298) // as long as an event

func benchServer(b *testing.B, inProcess bool) jetstream.JetStream {
	s, _ := run(b, Config{Listen: "127.0.0.1:0", StoreDir: b.TempDir()})
	js := connect(b, s.ClientURL())
	if inProcess {
		js = connect(b, "", s.InProcess())
	}
	_, err := js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: "EVENTS", Subjects: []string{"events.*.*"}, AllowAtomicPublish: true, Duplicates: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	return js
}

// numbered makes n messages with ids of the length that events have.
func numbered(from, n int) []*nats.Msg {
	all := make([]*nats.Msg, n)
	for i := range all {
		id := fmt.Sprintf("classifier:classified:%08x:2026-02-10T14:30:00Z/%064x", from+i, from+i)
		all[i] = &nats.Msg{
			Subject: "events.classified." + strconv.FormatInt(int64(16+(from+i)%240), 16),
			Data:    body, Header: nats.Header{jetstream.MsgIDHeader: {id}},
		}
	}
	return all
}

// BenchmarkAtomicBatch publishes batches with message ids; an iteration is one
// message.
func BenchmarkAtomicBatch(b *testing.B) {
	for _, size := range []int{100, 500, 1000} {
		for _, inFlight := range []int{1, 2, 4} {
			for _, way := range []string{"tcp", "process"} {
				b.Run(fmt.Sprintf("size=%d/inflight=%d/%s", size, inFlight, way), func(b *testing.B) {
					js := benchServer(b, way == "process")
					var next atomic.Int64
					var all sync.WaitGroup
					b.ResetTimer()
					for range inFlight {
						all.Go(func() {
							for {
								from := int(next.Add(int64(size))) - size
								if from >= b.N {
									return
								}
								if _, err := jetstreamext.PublishMsgBatch(b.Context(), js, numbered(from, size)); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
					b.ReportMetric(float64(next.Load()-int64(inFlight*size))/b.Elapsed().Seconds(), "msgs/s")
				})
			}
		}
	}
}

// BenchmarkSingle publishes messages one by one, each waiting for its
// acknowledgement, from a number of goroutines.
func BenchmarkSingle(b *testing.B) {
	for _, publishers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			js := benchServer(b, false)
			var next atomic.Int64
			var all sync.WaitGroup
			b.ResetTimer()
			for range publishers {
				all.Go(func() {
					for {
						i := int(next.Add(1)) - 1
						if i >= b.N {
							return
						}
						if _, err := js.PublishMsg(b.Context(), numbered(i, 1)[0]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}
