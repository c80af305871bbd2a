package tracking_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// TestModel makes random moves and compares every answer, every status and
// every counter with a model that is as plain as can be (promises 1, 3, 4, 5).
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := newModel(t, rand.New(rand.NewPCG(seed, 1)))
	for step := range 250 {
		m.step()
		if step%25 == 24 {
			m.check()
		}
		if t.Failed() {
			t.Fatalf("after %d steps", step+1)
		}
	}
}

type name struct {
	file  string
	shard int32
}

// place is an item at a stage in the model.
type place struct {
	status   string
	again    bool // it was given back: its new is not the first
	attempts int
	extra    int // that a retry has given it beyond those of the stage
	worker   string
	delayed  bool
	expired  bool // its lease has
}

type model struct {
	t     *testing.T
	r     *rand.Rand
	store *store
	pool  *pgxpool.Pool
	items map[name]*[4]place
	names []name
}

const maxAttempts = 3

func newModel(t *testing.T, r *rand.Rand) *model {
	m := &model{t: t, r: r, store: newQueues(t), items: map[name]*[4]place{}}
	m.pool = m.store.Pool()
	for _, stage := range shard.Queues {
		most := maxAttempts
		if _, err := m.store.Queues().Set(t.Context(), queue.ID(stage), queue.Set{MaxAttempts: &most}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *model) step() {
	switch n := m.r.IntN(20); {
	case n == 0 || len(m.names) == 0:
		m.register()
	case n == 1:
		m.finish()
	case n < 5:
		m.take()
	case n == 5:
		m.expire()
	case n == 6:
		m.undelay()
	case n == 7:
		m.retryFailed()
	case n == 8 && m.r.IntN(4) == 0:
		m.cancel()
	default:
		m.move()
	}
}

func (m *model) register() {
	file := fmt.Sprintf("f%d", m.r.IntN(8))
	shards := []int32{int32(m.r.IntN(3)), int32(m.r.IntN(6))}
	made, err := m.store.Register(m.t.Context(), []tracking.Registration{{Filename: file, Shards: shards}})
	want := 0
	for _, s := range shards {
		n := name{file, s}
		if m.items[n] == nil && err == nil {
			m.items[n] = &[4]place{{status: "started"}, {status: "new"}, {status: "new"}, {status: "new"}}
			m.names = append(m.names, n)
			want++
		}
	}
	if err == nil && made[0] != want {
		m.t.Errorf("register %s %v: made %d, want %d", file, shards, made[0], want)
	}
}

func (m *model) finish() {
	file := m.pick().file
	_, err := m.store.FinishIngest(m.t.Context(), file, queue.Command{})
	refused := false
	for _, n := range m.names {
		refused = refused || n.file == file && m.items[n][0].status == "failed"
	}
	if (err != nil) != refused {
		m.t.Errorf("finish %s: %v", file, err)
	}
	for _, n := range m.names {
		if n.file == file && !refused && m.items[n][0].status == "started" {
			m.items[n][0].status = "done"
		}
	}
}

func (m *model) pick() name { return m.names[m.r.IntN(len(m.names))] }

func (m *model) pickStage() shard.Stage { return shard.Queues[m.r.IntN(3)] }

var workers = []string{"", "a", "b"}

func (m *model) take() {
	stage, limit := m.pickStage(), 1+m.r.IntN(5)
	var free []name
	for _, n := range m.names {
		if p := m.items[n][stage]; p.status == "new" && !p.delayed && m.items[n][stage-1].status == "done" {
			free = append(free, n)
		}
	}
	taken, err := m.store.Take(m.t.Context(), stage, "a", limit, time.Hour)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(taken) != min(limit, len(free)) {
		m.t.Errorf("took %d of %d at %s, asked for %d", len(taken), len(free), stage, limit)
	}
	for _, r := range taken {
		n := name{r.Name, r.Part}
		if !slices.Contains(free, n) {
			m.t.Errorf("took %v at %s, which is not free", n, stage)
		}
		p := &m.items[n][stage]
		p.status, p.worker, p.expired = "started", "a", false
		p.attempts++
	}
}

// move makes a move of some items at once and compares what became of each.
func (m *model) move() {
	stage := m.pickStage()
	move := []item.Move{
		item.Start, item.Complete, item.Complete, item.Fail, item.Retry,
		item.Release, item.Again,
	}[m.r.IntN(7)]
	var delay time.Duration
	if m.r.IntN(4) == 0 && move != item.Complete {
		delay = time.Hour
	}
	chosen := map[name]bool{}
	for range 1 + m.r.IntN(8) {
		chosen[m.pick()] = true
	}
	var commands []queue.Command
	for _, n := range m.names { // not chosen, whose order is not that of the seed
		if !chosen[n] {
			continue
		}
		commands = append(commands, queue.Command{
			Name: n.file, Part: n.shard, Worker: workers[m.r.IntN(3)],
			Delay: delay, Lease: time.Hour,
		})
	}
	results, err := m.ask(stage, move, commands)
	if err != nil {
		m.t.Fatal(err)
	}
	for i, c := range commands {
		n := name{c.Name, c.Part}
		want := m.apply(n, stage, move, c)
		if got := results[i]; got.Outcome.String() != want || got.Status.String() != m.items[n][stage].status ||
			int(got.Attempts) != m.items[n][stage].attempts {
			m.t.Errorf("%s of %v at %s by %q: %+v, want %s and %+v", move, n, stage, c.Worker, got, want,
				m.items[n][stage])
		}
	}
}

// ask makes a move as HTTP does.
func (m *model) ask(stage shard.Stage, move item.Move, commands []queue.Command) ([]queue.Result, error) {
	if move != item.Start {
		return m.store.Apply(m.t.Context(), stage, move, commands)
	}
	m.store.InStep()
	return m.store.Hands.Start(m.t.Context(), stage.String(), commands)
}

// apply is the specification once more, in the plainest words.
func (m *model) apply(n name, stage shard.Stage, move item.Move, c queue.Command) string {
	p := &m.items[n][stage]
	others := p.status == "started" && c.Worker != "" && p.worker != "" && c.Worker != p.worker
	back := func() string {
		p.status, p.again, p.delayed = "new", true, c.Delay > 0 && m.items[n][stage-1].status == "done"
		return "changed"
	}
	switch move {
	case item.Start:
		switch {
		case p.status == "started" && c.Worker != "" && p.worker == c.Worker: // nobody knows who is unnamed
			return "repeated"
		case p.status != "new":
			return "forbidden"
		}
		p.status, p.worker, p.delayed, p.expired = "started", c.Worker, false, false
		p.attempts++
		return "changed"
	case item.Complete:
		switch {
		case others:
			return "fenced"
		case p.status == "done":
			return "repeated"
		case p.status != "started":
			return "forbidden"
		}
		p.status = "done"
		return "changed"
	case item.Fail:
		switch {
		case others:
			return "fenced"
		case p.status == "failed":
			return "repeated"
		case p.status == "done":
			return "forbidden"
		}
		p.status, p.delayed = "failed", false
		return "changed"
	case item.Retry:
		switch {
		case others:
			return "fenced"
		case p.status == "new" && p.again:
			return "repeated"
		case p.status != "failed":
			return "forbidden"
		}
		m.revive(p)
		return back()
	}
	dead := p.status == "failed" && p.attempts >= m.allowed(p)
	switch { // Release, Again
	case others:
		return "fenced"
	case p.status == "new" && p.again, move == item.Again && dead:
		return "repeated"
	case p.status != "started":
		return "forbidden"
	case move == item.Release:
		p.attempts--
		return back()
	case p.attempts >= m.allowed(p):
		p.status = "failed"
		return "changed"
	}
	return back()
}

func (m *model) allowed(p *place) int { return maxAttempts + p.extra }

func (m *model) revive(p *place) {
	if p.attempts >= m.allowed(p) {
		p.extra += p.attempts
	}
}

// expire ends the leases of some items by the database's clock.
func (m *model) expire() {
	stage := m.pickStage()
	for _, n := range m.names {
		p := &m.items[n][stage]
		if p.status != "started" || m.r.IntN(3) > 0 {
			continue
		}
		m.exec("UPDATE millrace.claim SET lease_until = now() - interval '1 second' WHERE stage = $1 AND item_id = "+
			"(SELECT id FROM millrace.pipeline_tracking WHERE filename = $2 AND shard = $3)", int16(stage), n.file, n.shard)
		if p.attempts >= m.allowed(p) {
			p.status = "failed"
			continue
		}
		p.status, p.again, p.delayed = "new", true, false
	}
	m.sweep()
}

func (m *model) undelay() {
	m.exec("UPDATE millrace.delayed SET due_at = now() - interval '1 second'")
	for _, n := range m.names {
		for _, stage := range shard.Queues {
			if p := &m.items[n][stage]; p.delayed {
				p.delayed = false
			}
		}
	}
	m.sweep()
}

func (m *model) retryFailed() {
	stage := m.pickStage()
	want := 0
	for _, n := range m.names {
		p := &m.items[n][stage]
		if p.status == "failed" {
			m.revive(p)
			p.status, p.again, p.delayed = "new", true, false
			want++
		}
	}
	got, err := m.store.RetryFailed(m.t.Context(), tracking.FailedFilter{Stage: stage, Dead: true, Limit: 1000}, 0)
	if err != nil || got != want {
		m.t.Errorf("retried %d at %s, want %d: %v", got, stage, want, err)
	}
}

func (m *model) cancel() {
	file, want := m.pick().file, 0
	for _, n := range m.names {
		if n.file != file {
			continue
		}
		for stage := shard.EventIngest; stage <= shard.Sender; stage++ {
			p := &m.items[n][stage]
			queued := p.status == "new" && (stage == shard.EventIngest || m.items[n][stage-1].status == "done")
			if p.status == "started" || queued {
				p.status, p.delayed = "failed", false
				want++
			}
		}
	}
	got, err := m.store.Cancel(m.t.Context(), file, "operator")
	if err != nil || got != want {
		m.t.Errorf("cancelled %d of %s, want %d: %v", got, file, want, err)
	}
}

func (m *model) exec(sql string, args ...any) {
	if _, err := m.pool.Exec(m.t.Context(), sql, args...); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) sweep() {
	if err := m.store.Sweep(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// check compares all that is in the database.
func (m *model) check() {
	m.checkStatuses()
	m.checkSummary()
	m.checkAnnounced()
	checkPlaces(m.t, m.pool)
}

func (m *model) checkStatuses() {
	for _, file := range slices.Sorted(maps.Keys(m.files())) {
		items, err := m.store.File(m.t.Context(), file)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, it := range items {
			for stage, want := range m.items[name{file, it.Shard}] {
				if got := it.Stages[stage].Status.String(); got != want.status {
					m.t.Errorf("%s/%d at %s is %s, want %s", file, it.Shard, shard.Stage(stage), got, want.status)
				}
			}
		}
	}
}

func (m *model) files() map[string]bool {
	files := map[string]bool{}
	for _, n := range m.names {
		files[n.file] = true
	}
	return files
}

func (m *model) checkSummary() {
	got, err := m.store.Summary(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	var want [4]map[string]int64
	byShard := map[int32]*tracking.ShardCounts{}
	for n, it := range m.items {
		for i, p := range it {
			if want[i] == nil {
				want[i] = map[string]int64{}
			}
			want[i][p.status]++
		}
		v := byShard[n.shard]
		if v == nil {
			v = &tracking.ShardCounts{Shard: n.shard}
			byShard[n.shard] = v
		}
		v.Total++
		switch it[3].status {
		case "done":
			v.Done++
		case "failed":
			v.Failed++
		}
	}
	if got.Total != int64(len(m.items)) {
		m.t.Errorf("total %d, want %d", got.Total, len(m.items))
	}
	for i, counts := range got.ByStage {
		for status, n := range counts {
			if name := item.Status(status).String(); n != want[i][name] {
				m.t.Errorf("%s: %d are %s, want %d", shard.Stage(i), n, name, want[i][name])
			}
		}
	}
	if len(got.ByShard) != len(byShard) {
		m.t.Errorf("%d shards, want %d", len(got.ByShard), len(byShard))
	}
	for _, v := range got.ByShard {
		if w := byShard[v.Shard]; w == nil || v != *w {
			m.t.Errorf("shard %+v, want %+v", v, w)
		}
	}
	for _, q := range got.Queues {
		var depth, delayed int64
		for _, it := range m.items {
			if p := it[q.ID]; p.status == "new" && it[q.ID-1].status == "done" {
				if p.delayed {
					delayed++
				} else {
					depth++
				}
			}
		}
		if q.Depth != depth || q.Delayed != delayed {
			m.t.Errorf("%s: depth %d and %d delayed, want %d and %d", q.Name, q.Depth, q.Delayed, depth, delayed)
		}
	}
}

// checkAnnounced holds that each item that is ready has one message on the
// stream, of its generation, and that there are no others (promise 4).
func (m *model) checkAnnounced() {
	m.store.InStep()
	ready := map[string]int{}
	rows, err := m.pool.Query(m.t.Context(), "SELECT item_id, stage, generation FROM millrace.ready")
	if err != nil {
		m.t.Fatal(err)
	}
	var r queue.Ref
	if _, err := pgx.ForEachRow(rows, []any{&r.Item, &r.Queue, &r.Generation}, func() error {
		ready[fmt.Sprintf("%d %s %d", r.Item, shard.Stage(r.Queue), r.Generation)]++
		return nil
	}); err != nil {
		m.t.Fatal(err)
	}
	messages := map[string]int{}
	for _, it := range m.store.Messages() {
		messages[fmt.Sprintf("%d %s %d", it.ID, it.Stage, it.Generation)]++
	}
	if !maps.Equal(ready, messages) {
		m.t.Errorf("ready are %v, announced %v", ready, messages)
	}
}

// checkPlaces holds that the small tables say what the statuses say (promise
// 3), and that counters equal a recount (promise 5).
func checkPlaces(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		WITH s AS (
			SELECT t.id, u.* FROM millrace.pipeline_tracking AS t, LATERAL (VALUES
				(1, event_ingest_status, shard_splitter_status, shard_splitter_generation),
				(2, shard_splitter_status, shard_worker_status, shard_worker_generation),
				(3, shard_worker_status, mysql_sender_status, mysql_sender_generation)) AS u (stage, prev, status, generation)
		), places AS (
			SELECT s.*, r.generation AS r, d.generation AS d, c.generation AS c, f.item_id AS f FROM s
			LEFT JOIN millrace.ready AS r ON r.item_id = s.id AND r.stage = s.stage
			LEFT JOIN millrace.delayed AS d ON d.item_id = s.id AND d.stage = s.stage
			LEFT JOIN millrace.claim AS c ON c.item_id = s.id AND c.stage = s.stage
			LEFT JOIN millrace.failed AS f ON f.item_id = s.id AND f.stage = s.stage
		)
		SELECT format('item %s at %s is %s after %s: ready %s delayed %s claim %s failed %s', id, stage, status, prev,
		r, d, c, f) FROM places
		WHERE NOT CASE
			WHEN status = 'new' AND prev = 'done' THEN num_nonnulls(r, d) = 1 AND coalesce(r, d) = generation
			AND num_nonnulls(c, f) = 0
			WHEN status = 'started' THEN c = generation AND num_nonnulls(r, d, f) = 0
			WHEN status = 'failed' THEN f IS NOT NULL AND num_nonnulls(r, d, c) = 0
			ELSE num_nonnulls(r, d, c, f) = 0 END
		UNION ALL
		SELECT format('dead at %s: %s counted, %s there', stage, n, there) FROM (
			SELECT stage, (SELECT coalesce(sum(n), 0)
			FROM (SELECT * FROM millrace.tally UNION ALL SELECT * FROM millrace.tally_delta) AS a
			WHERE kind = stage * 10 + 6) AS n,
				(SELECT count(*) FROM millrace.failed AS f WHERE f.stage = s.stage AND dead) AS there
			FROM millrace.stage AS s) AS v WHERE n <> there`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var wrong string
		if err := rows.Scan(&wrong); err != nil {
			t.Fatal(err)
		}
		t.Error(wrong)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
