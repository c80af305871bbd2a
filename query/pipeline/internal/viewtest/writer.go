package viewtest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Writer writes batches as a projector does, but for the stream: the test
// hands it events. It is not safe for concurrent use.
type Writer struct {
	t      testing.TB
	client *ch.Client
	rows   map[funnel.Key]*row
	seq    uint64
	All    []Event // everything written
}

// row is the two rows of a key, which add up.
type row struct {
	whole, recent counts
	written       int // times
}

type counts struct {
	events uint64
	set    funnel.Set
}

// Event is an event that has been written.
type Event struct {
	event.Event
	Record event.Record
	Seq    uint64
}

// NewWriter connects until the test ends.
func NewWriter(t testing.TB, opts *clickhouse.Options) *Writer {
	t.Helper()
	client, err := ch.Dial(t.Context(), ch.Options{Address: opts.Addr[0], Database: opts.Auth.Database})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &Writer{t: t, client: client, rows: map[funnel.Key]*row{}}
}

// Write makes a batch of events durable and returns its announcement.
func (w *Writer) Write(events ...event.Event) *funnel.Delta {
	w.t.Helper()
	d, complete := w.Begin(events...)
	complete()
	return d
}

// Begin writes the funnel's rows of a batch, and complete its events. Every second
// time that a row changes, what has come goes into the row of recent counts.
func (w *Writer) Begin(events ...event.Event) (d *funnel.Delta, complete func()) {
	w.t.Helper()
	d = &funnel.Delta{From: w.seq, To: w.seq + uint64(len(events)), Parts: 1}
	block, changed := schema.NewEventBlock(), map[funnel.Key]struct{}{}
	for _, e := range events {
		w.seq++
		written := w.decode(e)
		r := &written.Record
		received := r.OccurredAt + 1500
		block.Append(w.seq, received, r, r.Identity())
		w.fold(r, d, changed)
		w.All = append(w.All, written)
	}
	w.insertRows(changed, d.To)
	return d, func() { w.insert("events", block.Input()) }
}

func (w *Writer) decode(e event.Event) Event {
	w.t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		w.t.Fatal(err)
	}
	out := Event{Event: e, Seq: w.seq}
	if err := event.Decode(data, &out.Record); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *Writer) fold(r *event.Record, d *funnel.Delta, changed map[funnel.Key]struct{}) {
	sec := r.OccurredAt / 1e9
	d.Entries = append(d.Entries, funnel.Entry{
		Quarter: uint32(funnel.Quarter.Floor(sec)), Article: r.ArticleID(),
		Stage: uint16(place(&d.Stages, string(r.Stage))), Source: uint32(place(&d.Sources, string(r.SourceName))),
	})
	for _, width := range funnel.Widths {
		for _, source := range []string{funnel.AllSources, string(r.SourceName)} {
			key := funnel.Key{Width: width, Bucket: uint32(width.Floor(sec)), Source: source, Stage: string(r.Stage)}
			if w.rows[key] == nil {
				w.rows[key] = new(row)
			}
			w.rows[key].recent.events++
			w.rows[key].recent.set.Insert(r.ArticleID())
			changed[key] = struct{}{}
		}
	}
}

func place(names *[]string, name string) int {
	for i, n := range *names {
		if n == name {
			return i
		}
	}
	*names = append(*names, name)
	return len(*names) - 1
}

func (w *Writer) insertRows(changed map[funnel.Key]struct{}, seq uint64) {
	w.t.Helper()
	block := schema.NewFunnelBlock()
	add := func(key funnel.Key, c *counts) {
		if err := block.Append(key, 0, c.events, &c.set, seq); err != nil {
			w.t.Fatal(err)
		}
	}
	for key := range changed {
		r, recent := w.rows[key], key
		recent.Recent = true
		if r.written++; r.written%2 == 0 {
			add(recent, &r.recent)
			continue
		}
		if err := r.whole.set.Merge(&r.recent.set); err != nil {
			w.t.Fatal(err)
		}
		r.whole.events += r.recent.events
		r.recent = counts{}
		add(key, &r.whole)
		if r.written > 1 {
			add(recent, &r.recent)
		}
	}
	w.insert("funnel", block.Input())
}

func (w *Writer) insert(table string, input proto.Input) {
	w.t.Helper()
	err := w.client.Do(w.t.Context(), ch.Query{
		Body: input.Into(table), Input: input,
		Settings: []ch.Setting{
			{Key: "async_insert", Value: "0"},
			{Key: "max_partitions_per_insert_block", Value: "0"},
			{Key: "distributed_foreground_insert", Value: "1"},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Announce publishes a delta, whose batch the checkpoint of its group has.
func Announce(t testing.TB, nc *nats.Conn, d *funnel.Delta) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	text := d.AppendBinary(nil)
	digest := funnel.Digest([]funnel.Sum{funnel.SumOf(text)})
	put(t.Context(), t, kv, d.Group, funnel.Checkpoint{From: d.From, To: d.To, Digest: digest})
	if err := nc.Publish(stream.FunnelDeltas, text); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// Checkpoint says that everything up to a sequence is durable.
func Checkpoint(ctx context.Context, t testing.TB, js jetstream.JetStream, seq uint64) {
	t.Helper()
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	value, err := layout.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(ctx, slots.Key, value); err != nil {
		t.Fatal(err)
	}
	put(ctx, t, kv, 0, funnel.Checkpoint{From: seq, To: seq})
}

func put(ctx context.Context, t testing.TB, kv jetstream.KeyValue, group uint32, c funnel.Checkpoint) {
	t.Helper()
	value, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(ctx, slots.Group{ID: group}.Key(), value); err != nil {
		t.Fatal(err)
	}
}
