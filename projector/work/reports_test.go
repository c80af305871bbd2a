package work_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

func (h *house) report(stage, move, body string) {
	h.Helper()
	if _, err := h.js.Publish(h.Context(), stream.ShardSubject(stage, move), []byte(body)); err != nil {
		h.Fatal(err)
	}
}

// TestReports: daemons that report over NATS move items as others do over
// HTTP, and each report is applied once (invariant 8).
func TestReports(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.report("", "register", `{"filename":"a.event-ingest.txt","shards":[0,1,1,2,0]}`)
	h.report("event-ingest", "done", `{"filename":"a"}`)
	const stage = "shard-splitter"
	for i := range 3 {
		h.report(stage, "start", fmt.Sprintf(`{"filename":"a","shard":%d,"worker":"w"}`, i))
	}
	h.report(stage, "done", `{"filename":"a","shard":0}`)
	h.report(stage, "fail", `{"filename":"a","shard":1,"error":"broken"}`)
	h.report(stage, "retry", `{"filename":"a","shard":1}`)
	h.report(stage, "start", `{"filename":"a","shard":1,"worker":"w"}`)
	h.await(shard.Splitter, item.Done, 1)
	h.await(shard.Splitter, item.Started, 2)
	h.stop()
	h.serve() // what was applied is not applied again: the failure would be
	h.report(stage, "done", `{"filename":"a","shard":1}`)
	h.report(stage, "done", `{"filename":"a.event-ingest.txt","shard":2}`)
	h.await(shard.Splitter, item.Done, 3)
	want := map[string]int{"start": 4, "done": 3, "fail": 1, "retry": 1}
	if got := h.moves(shard.Splitter); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("history %v, not %v", got, want)
	}
}

// TestReportsOfAStreamMadeAnew: a stream of reports that was made anew, and ends
// before the position, is read from its start.
func TestReportsOfAStreamMadeAnew(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.report("", "register", `{"filename":"a","shards":[0,1]}`)
	h.report("event-ingest", "done", `{"filename":"a"}`)
	const stage = "shard-splitter"
	h.report(stage, "start", `{"filename":"a","shard":0,"worker":"w"}`)
	h.await(shard.Splitter, item.Started, 1)
	h.stop()
	if err := h.js.DeleteStream(t.Context(), stream.Shards); err != nil {
		t.Fatal(err)
	}
	h.serve()
	h.until("the stream", func() (string, bool) {
		_, err := h.js.Stream(t.Context(), stream.Shards)
		return fmt.Sprint(err), err == nil
	})
	h.report(stage, "done", `{"filename":"a","shard":0}`)
	h.await(shard.Splitter, item.Done, 1)
	h.report(stage, "start", `{"filename":"a","shard":1,"worker":"w"}`)
	h.await(shard.Splitter, item.Started, 1)
}

// TestReportsOfAnOlderPostgres: when Postgres goes back to a backup, the position
// goes back with the items, and the reports since are applied again (invariant 8).
func TestReportsOfAnOlderPostgres(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	const stage = "shard-splitter"
	h.report("", "register", `{"filename":"a","shards":[0,1]}`)
	h.report("event-ingest", "done", `{"filename":"a"}`)
	h.report(stage, "start", `{"filename":"a","shard":0,"worker":"w"}`)
	h.await(shard.Splitter, item.Started, 1)
	h.stop()
	var err error
	if h.store, h.hands, err = open(t, h.nc, engine.Pool(t, queue.Configure)); err != nil {
		t.Fatal(err)
	}
	h.run(h.store.Queues().Run)
	h.file("a", 2) // the backup has what the first two reports did
	if _, err := h.store.Pool().Exec(t.Context(),
		"INSERT INTO millrace.work_position (stream, seq) VALUES ('SHARDS', 2)"); err != nil {
		t.Fatal(err)
	}
	h.serve()
	h.await(shard.Splitter, item.Started, 1)
	h.report(stage, "done", `{"filename":"a","shard":0}`)
	h.await(shard.Splitter, item.Done, 1)
	if got := h.moves(shard.Splitter); got["start"] != 1 || got["done"] != 1 {
		t.Errorf("history %v", got)
	}
}

// TestBadReports: a report that breaks a rule is in the DLQ stream with field
// and rule, and those around it are applied (invariant 8).
func TestBadReports(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 3)
	held := h.pull(shard.Splitter, 1)[0] // a daemon has it
	var free []int
	for i := range 3 {
		if i != h.item(held).Shard {
			free = append(free, i)
		}
	}
	const stage = "shard-splitter"
	bad := []struct{ stage, move, body, field, code string }{
		{stage, "start", fmt.Sprintf(`{"filename":"a","shard":%d}`, h.item(held).Shard), "status", "taken"},
		{stage, "done", fmt.Sprintf(`{"filename":"a","shard":%d}`, free[1]), "status", "forbidden"},
		{stage, "start", `{"filename":"a"}`, "shard", "missing"},
		{stage, "start", `{"filename":"b","shard":0}`, "filename", "not_found"},
		{stage, "start", `{"filename":"a/b","shard":0}`, "filename", ""},
		{stage, "start", `{"filename":"a","shard":0,"worker":"nats"}`, "worker", "reserved"},
		{stage, "leap", `{"filename":"a","shard":0}`, "subject", "unknown"},
		{"nowhere", "start", `{"filename":"a","shard":0}`, "subject", "unknown"},
		{"event-ingest", "done", `{"filename":"b"}`, "filename", "refused"},
		{"", "register", `{"filename":"b","shards":[]}`, "shards", "empty"},
		{stage, "start", `what`, "", "json"},
	}
	for i, b := range bad {
		h.report(b.stage, b.move, b.body)
		if i < len(free) {
			h.report(stage, "start", fmt.Sprintf(`{"filename":"a","shard":%d}`, free[i]))
		}
	}
	var letters []*jetstream.RawStreamMsg
	dlq, err := h.js.Stream(t.Context(), stream.DLQ)
	if err != nil {
		t.Fatal(err)
	}
	h.until("dead letters", func() (string, bool) {
		letters = nil
		for seq := uint64(1); ; seq++ {
			m, err := dlq.GetMsg(t.Context(), seq)
			if err != nil {
				break
			}
			letters = append(letters, m)
		}
		return fmt.Sprint(len(letters)), len(letters) == len(bad)
	})
	for i, b := range bad {
		m := letters[i]
		field, code := m.Header.Get(stream.HeaderField), m.Header.Get(stream.HeaderCode)
		if string(m.Data) != b.body || field != b.field || b.code != "" && code != b.code {
			t.Errorf("%s: letter %d is %s: %s %s: %s", b.body, i, m.Data, field, code,
				m.Header.Get(stream.HeaderReason))
		}
	}
	if err := held.Ack(); err != nil {
		t.Fatal(err)
	}
	h.await(shard.Splitter, item.Done, 1)
	h.await(shard.Splitter, item.Started, 2)
}
