package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// workVerdict is what the comparison of the shards' record found.
type workVerdict struct {
	files, items  int // registrations acknowledged, and their shards
	acked         int // pieces of which an end was acknowledged
	recorded      int // pieces done by the record
	lost, doubled int // acknowledged and not done; done more than once
	starts, again int // takings; of these beyond the first of a piece
	differences
}

func (v *workVerdict) String() string {
	return fmt.Sprintf("files registered %d with %d shards; pieces acknowledged %d, recorded %d, lost %d, doubled "+
		"%d; taken %d times, %d of them again",
		v.files, v.items, v.acked, v.recorded, v.lost, v.doubled, v.starts, v.again)
}

// failures are pieces that have failed, for reasons that can be mended: none
// while Postgres is away.
func (s *shards) failures(ctx context.Context) (found []piece) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var p piece
	var stage int
	_ = s.dsn.read(ctx, "SELECT t.filename, t.shard, f.stage FROM millrace.failed AS f JOIN millrace.pipeline_tracking "+
		"AS t ON t.id = f.item_id LIMIT 100",
		[]any{&p.file, &p.shard, &stage}, func() error {
			if p.stage = shardStages[stage-1]; stage-1 != poisoned || !s.notes.poison(p.file) {
				found = append(found, p)
			}
			return nil
		})
	return found
}

// finish waits until all that was registered is at its end and nothing stands
// in a queue, and says what does not.
func (s *shards) finish(ctx context.Context) error {
	s.honest.Store(true)
	if err := untilHolds(ctx, s.left); err != nil {
		return fmt.Errorf("the shards' work is not at its end: %w", err)
	}
	return nil
}

// left is an error that says what is still to be done, or nil.
func (s *shards) left(ctx context.Context) error {
	s.notes.mu.Lock()
	want := 0
	for _, f := range s.notes.files {
		want += btoi(!f.poison) * len(f.shards)
	}
	s.notes.mu.Unlock()
	var done, ready, outbox, claims, delayed int
	last := len(shardStages) // other queues have higher numbers
	err := s.dsn.read(ctx, fmt.Sprintf(`SELECT
		(SELECT count(*) FROM millrace.pipeline_tracking WHERE mysql_sender_status = 'done'),
		(SELECT count(*) FROM millrace.ready WHERE stage <= %[1]d),
		(SELECT count(*) FROM millrace.outbox WHERE stage <= %[1]d),
		(SELECT count(*) FROM millrace.claim WHERE stage <= %[1]d),
		(SELECT count(*) FROM millrace.delayed WHERE stage <= %[1]d)`, last),
		[]any{&done, &ready, &outbox, &claims, &delayed}, func() error { return nil })
	if err != nil {
		return err
	}
	st, err := s.js.Stream(ctx, stream.Work)
	if err != nil {
		return err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(stream.WorkSubjects))
	if err != nil {
		return err
	}
	messages := 0
	for _, stage := range shardStages {
		messages += int(info.State.Subjects[stream.WorkSubject(stage)])
	}
	if done < want || ready+outbox+claims+delayed+messages > 0 {
		return fmt.Errorf("%d of %d items are done; ready %d, outbox %d, with daemons %d, delayed %d, messages %d",
			done, want, ready, outbox, claims, delayed, messages)
	}
	return nil
}

// check compares the record with what was acknowledged.
func (s *shards) check(ctx context.Context) (finding, error) {
	v, err := s.compare(ctx)
	return finding{v, "the record of shards differs", v.mismatches}, err
}

func (s *shards) compare(ctx context.Context) (*workVerdict, error) {
	v := &workVerdict{}
	r, err := s.record(ctx, v)
	if err != nil {
		return v, fmt.Errorf("read the record of shards: %w", err)
	}
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	v.compareFiles(s.notes.files, r)
	v.compareEnds(s.notes.workNotes, r)
	if err := s.compareSummary(ctx, v, r); err != nil {
		return v, err
	}
	v.mismatches = append(v.mismatches, s.notes.failures...)
	return v, s.compareReports(ctx, v)
}

// workRecord is what Postgres says.
type workRecord struct {
	items map[string]map[int][4]string // statuses by file and shard
	done  map[piece]int                // ends by the history
	said  map[end]int                  // moves that workers made, by the history
	now   map[piece]string             // statuses by the history
}

// record reads rows and history, and holds the history to the rules: one has an
// item at a time, and it is done once.
func (s *shards) record(ctx context.Context, v *workVerdict) (*workRecord, error) {
	r := &workRecord{
		items: map[string]map[int][4]string{}, done: map[piece]int{}, said: map[end]int{},
		now: map[piece]string{},
	}
	var name string
	var number int
	var st [4]string
	err := s.dsn.read(ctx, `SELECT filename, shard, event_ingest_status::text, shard_splitter_status::text,
		shard_worker_status::text, mysql_sender_status::text
		FROM millrace.pipeline_tracking`, []any{&name, &number, &st[0], &st[1], &st[2], &st[3]}, func() error {
		if r.items[name] == nil {
			r.items[name] = map[int][4]string{}
		}
		r.items[name][number] = st
		return nil
	})
	if err != nil {
		return r, err
	}
	return r, s.dsn.history(ctx, v, r, `SELECT t.filename, t.shard, h.stage, h.move::text, h.status::text,
		coalesce(h.worker, '')
		FROM millrace.history AS h JOIN millrace.pipeline_tracking AS t ON t.id = h.item_id WHERE h.stage > 0
		ORDER BY h.id`, func(stage int) string { return shardStages[stage-1] })
}

// allowed is the specification's table of moves, with those beyond it.
func allowed(from, move, to string) bool {
	if from == "" {
		from = "new"
	}
	switch move {
	case "register":
		return from == "new" && to == "new"
	case "cancel":
		return (from == "new" || from == "started") && to == "failed"
	case "start":
		return to == "started" && (from == "new" || from == "started")
	case "done":
		return from == "started" && to == "done"
	case "fail":
		return (from == "new" || from == "started") && to == "failed"
	case "retry":
		return from == "failed" && to == "new"
	case "release":
		return from == "started" && to == "new"
	case "again", "expire":
		return from == "started" && (to == "new" || to == "failed")
	}
	return false
}

// compareFiles holds the rows to what was registered, and to having come to
// their end; and the history to the rows.
func (v *workVerdict) compareFiles(files map[string]*fileNote, r *workRecord) {
	for name, f := range files {
		if f.acked {
			v.files++
			v.items += len(f.shards)
		}
		rows := r.items[name]
		if f.acked && len(rows) != len(f.shards) {
			v.wrong("%s was registered with %d shards, and has %d", name, len(f.shards), len(rows))
		}
		want := [4]string{"done", "done", "done", "done"}
		if f.poison {
			want = [4]string{"done", "done", "failed", "new"}
		}
		for number, got := range rows {
			if got != want || !slices.Contains(f.shards, number) {
				v.wrong("%s/%d is %v, want %v", name, number, got, want)
			}
			for i, stage := range shardStages {
				p := piece{name, number, stage}
				if now, ok := r.now[p]; got[i+1] != now && (ok || got[i+1] != "new") {
					v.wrong("%v is %s, and by its history %q", p, got[i+1], now)
				}
			}
		}
	}
	for name := range r.items {
		if files[name] == nil {
			v.wrong("%s is a file that nobody registered", name)
		}
	}
}

// compareEnds holds the history to what was acknowledged to daemons.
func (v *workVerdict) compareEnds(n *workNotes, r *workRecord) {
	for p, times := range r.done {
		v.recorded++
		if times > 1 {
			v.doubled++
			v.wrong("%v is done %d times by the record", p, times)
		}
	}
	acked := map[piece]bool{}
	for _, e := range n.ends {
		switch e.move {
		case "done":
			acked[e.piece] = true
			if e.worker != "" && r.said[e] != 1 {
				v.wrong("%v: %s was told that it is done by it, and the record has that %d times", e.piece,
					e.worker, r.said[e])
			}
		case "fail": // also with its lease, just before
			if r.said[e]+r.said[end{e.piece, "expire", e.worker}] == 0 {
				v.wrong("%v: %s was told that it has failed, and the record does not say so", e.piece, e.worker)
			}
		default: // it may have been taken back from the worker just before
			back := r.said[e]
			for _, move := range []string{"expire", "again", "release"} {
				back += r.said[end{e.piece, move, e.worker}]
			}
			if back == 0 {
				v.wrong("%v: %s was told that it is given back, and the record does not say so", e.piece, e.worker)
			}
		}
	}
	for p := range acked {
		v.acked++
		if r.done[p] == 0 {
			v.lost++
			v.wrong("%v was acknowledged, and is not done by the record", p)
		}
	}
	for _, e := range n.starts {
		if r.said[e] != 1 {
			v.wrong("%v: %s was given it, and the record has that %d times", e.piece, e.worker, r.said[e])
		}
	}
	for e, times := range n.calls {
		if times > r.said[e] {
			v.wrong("%v: the handler of %s was called %d times, and by the record it had it %d times", e.piece,
				e.worker, times, r.said[e])
		}
	}
}

// summaryNumbers are those of GET /metrics/summary that can be recounted.
type summaryNumbers struct {
	Total   int
	ByStage map[string]map[string]int                  `json:"by_stage"`
	ByShard []struct{ Shard, Total, Done, Failed int } `json:"by_shard"`
	Queues  map[string]struct{ Depth, Delayed int }
}

// compareSummary holds the numbers to a recount of the rows.
func (s *shards) compareSummary(ctx context.Context, v *workVerdict, r *workRecord) error {
	body, err := fetch(ctx, http.MethodGet, "http://"+s.query+"/api/v1/pipeline/metrics/summary", "")
	if err != nil {
		return err
	}
	var got summaryNumbers
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("the summary: %w: %.300s", err, body)
	}
	want := r.summary()
	for stage, counts := range want.ByStage {
		if !maps.Equal(got.ByStage[stage], counts) {
			v.wrong("the summary has at %s %v, want %v", stage, got.ByStage[stage], counts)
		}
	}
	if got.Total != want.Total || !slices.Equal(got.ByShard, want.ByShard) {
		v.wrong("the summary has %d items, by shard %+v; want %d, %+v", got.Total, got.ByShard,
			want.Total, want.ByShard)
	}
	for stage, q := range got.Queues {
		if q.Depth != 0 || q.Delayed != 0 {
			v.wrong("the summary has in the queue of %s %+v", stage, q)
		}
	}
	return nil
}

// summary counts the rows.
func (r *workRecord) summary() summaryNumbers {
	n := summaryNumbers{ByStage: map[string]map[string]int{}}
	columns := []string{"event_ingest", "shard_splitter", "shard_worker", "mysql_sender"}
	for _, column := range columns {
		n.ByStage[column] = map[string]int{"new": 0, "started": 0, "done": 0, "failed": 0}
	}
	for _, rows := range r.items {
		for number, statuses := range rows {
			n.Total++
			for i, column := range columns {
				n.ByStage[column][statuses[i]]++
			}
			for len(n.ByShard) <= number {
				n.ByShard = append(n.ByShard, struct{ Shard, Total, Done, Failed int }{Shard: len(n.ByShard)})
			}
			n.ByShard[number].Total++
			n.ByShard[number].Done += btoi(statuses[3] == "done")
			n.ByShard[number].Failed += btoi(statuses[3] == "failed")
		}
	}
	return n
}

// compareReports holds the dead letters of SHARDS to the reports that break a
// rule.
func (s *shards) compareReports(ctx context.Context, v *workVerdict) error {
	letters := map[string]int{}
	err := each(ctx, s.js, stream.DLQ, func(_ uint64, _ time.Time, m jetstream.Msg) {
		if m.Headers().Get(stream.HeaderStream) != stream.Shards {
			return
		}
		var said struct{ Filename string }
		if err := json.Unmarshal(m.Data(), &said); err != nil || !strings.HasPrefix(said.Filename, "unknown-") {
			v.wrong("a report that broke no rule is a dead letter, %s: %s",
				m.Headers().Get(stream.HeaderReason), m.Data())
		}
		letters[said.Filename]++
	})
	for name, acked := range s.notes.letters {
		if n := letters[name]; n > 1 || acked && n == 0 {
			v.wrong("%d dead letters of the report of %s", n, name)
		}
	}
	return err
}
