package nats

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/schemas/stream"
)

var body = bytes.Repeat([]byte("x"), 298) // as long as an event

func benchServer(b *testing.B, inProcess bool) jetstream.JetStream {
	s, _ := run(b, Config{Listen: "127.0.0.1:0", StoreDir: b.TempDir()})
	js := connect(b, s.ClientURL(), login(b, s))
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

// publishBatches publishes b.N messages in atomic batches.
func publishBatches(b *testing.B, js jetstream.JetStream, size, inFlight int) {
	publish(b, size, inFlight, func(from int) error {
		_, err := jetstreamext.PublishMsgBatch(b.Context(), js, numbered(from, size))
		return err
	})
}

// publishSingles publishes b.N messages one by one, each waiting for its
// acknowledgement.
func publishSingles(b *testing.B, js jetstream.JetStream, publishers int) {
	publish(b, 1, publishers, func(from int) error {
		_, err := js.PublishMsg(b.Context(), numbered(from, 1)[0])
		return err
	})
}

// publish calls send from a number of goroutines until b.N messages are sent.
func publish(b *testing.B, size, inFlight int, send func(from int) error) {
	var next, sent atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	before := processorTime(b)
	for range inFlight {
		all.Go(func() {
			for {
				from := int(next.Add(int64(size))) - size
				if from >= b.N {
					return
				}
				if err := send(from); err != nil {
					b.Error(err)
					return
				}
				sent.Add(int64(size))
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(sent.Load())/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(sent.Load()), "cpu-ns/msg")
}

// processorTime is that of this process, in which both sides of a benchmark run.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkAtomicBatch publishes batches with message ids; an iteration is one
// message.
func BenchmarkAtomicBatch(b *testing.B) {
	for _, size := range []int{100, 500, 1000} {
		for _, inFlight := range []int{1, 2, 4} {
			for _, way := range []string{"tcp", "process"} {
				b.Run(fmt.Sprintf("size=%d/inflight=%d/%s", size, inFlight, way), func(b *testing.B) {
					publishBatches(b, benchServer(b, way == "process"), size, inFlight)
				})
			}
		}
	}
}

// BenchmarkSingle publishes messages one by one from a number of goroutines.
func BenchmarkSingle(b *testing.B) {
	for _, publishers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			publishSingles(b, benchServer(b, false), publishers)
		})
	}
}

// BenchmarkRoles publishes as Millrace, in the account of the streams, and as a
// producer, whose account imports their subjects: the difference is what the
// import costs. The stream is in memory, so that no sync hides it.
func BenchmarkRoles(b *testing.B) {
	for _, way := range []struct {
		name    string
		publish func(*testing.B, jetstream.JetStream)
	}{
		{"single", func(b *testing.B, js jetstream.JetStream) { publishSingles(b, js, 64) }},
		{"batch", func(b *testing.B, js jetstream.JetStream) { publishBatches(b, js, 1000, 2) }},
	} {
		for _, role := range []string{stream.RoleMillrace, stream.RoleProducer} {
			b.Run(way.name+"/"+role, func(b *testing.B) {
				s, _ := run(b, Config{Listen: "127.0.0.1:0", StoreDir: b.TempDir()})
				_, err := connect(b, "", s.InProcess()).CreateStream(b.Context(), jetstream.StreamConfig{
					Name: stream.Events, Subjects: []string{stream.EventSubjects}, Storage: jetstream.MemoryStorage,
					MaxMsgs: 100_000, AllowAtomicPublish: true, Duplicates: stream.MinDedupWindow,
				})
				if err != nil {
					b.Fatal(err)
				}
				option, err := s.Login(role)
				if err != nil {
					b.Fatal(err)
				}
				way.publish(b, connect(b, s.ClientURL(), option))
			})
		}
	}
}
