package batches

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// retries are the retries of a site, and what a plain loop makes of them.
type retries struct {
	*site
	rng   *rand.Rand
	own   *userqueue.Store
	again *recrawl.Store
	items map[place][]string // outcomes of each item, in order
	acted int
}

// place is an item of a batch.
type place struct {
	schema.ID
	position int
}

// outcome is an outcome as the test compares it.
func outcome(o schema.Outcome, content []byte) string {
	code := o.Code
	if o.OK() {
		code = ""
	}
	return fmt.Sprintf("%s %s %s %x", o.ContentID, o.Category, code, sha256.Sum256(content))
}

// processes runs what has items tried again, and stores outcomes, until it is stopped.
func (r *retries) processes() (stop func()) {
	r.Helper()
	stopService := r.run()
	publisher, err := outbox.NewPublisher(outbox.Config{Key: 7, Poll: 5 * time.Millisecond}, r.again.Outbox(), outbox.Deps{
		NATS: r.nats.Connect(), Postgres: r.pool, Registry: prometheus.NewRegistry(), Log: embeddedtest.Log(r),
	})
	if err != nil {
		r.Fatal(err)
	}
	stopPublisher, stopFeeding := embeddedtest.Go(r, publisher.Run), embeddedtest.Go(r, r.again.Run)
	return func() {
		stopService()
		stopPublisher()
		stopFeeding()
	}
}

func newRetries(t *testing.T, seed uint64) *retries {
	t.Helper()
	s := newSite(t)
	s.pool = pgEngine.Pool(t, queue.Configure)
	r := &retries{site: s, rng: rand.New(rand.NewPCG(seed, 2)), items: map[place][]string{}}
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, s.pool, embeddedtest.Log(t))
	if err == nil {
		if r.own, err = userqueue.New(queues); err == nil {
			r.again, err = recrawl.New(r.own, embeddedtest.Log(t))
		}
	}
	if err == nil {
		err = r.again.MakeQueues(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// announce has batches read, and counts their items.
func (r *retries) announce(h *history, n int) {
	r.Helper()
	for range n {
		read := h.read()
		publishRead(r, r.js, read)
		id := read.About.Batch
		if _, again := h.hashes[id]; !again {
			for i, item := range read.Items {
				r.items[place{id, i}] = []string{outcome(item.Outcome, item.Content)}
			}
		}
		h.count(read)
	}
}

// found is an item of a queue.
type found struct {
	id      int64
	queue   queue.ID
	status  string
	payload string
}

// work has workers do something with some items, or people with queues and errors.
func (r *retries) work() {
	r.Helper()
	r.exec("UPDATE millrace.batch_error SET due_at = now() WHERE state = 'waiting' AND due_at > now()")
	rows, err := r.pool.Query(r.Context(), `SELECT id, stage, status::text, payload::text FROM millrace.item
		WHERE status <> 'done' ORDER BY random() LIMIT 30`)
	if err != nil {
		r.Fatal(err)
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f found, err error) {
		return f, row.Scan(&f.id, &f.queue, &f.status, &f.payload)
	})
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range items {
		switch n := r.rng.IntN(20); {
		case f.status == "new" && n < 17:
			r.move(f, item.Start, queue.Command{ID: f.id})
		case f.status == "started" && n < 12:
			r.end(f)
		case f.status == "started" && n < 14:
			r.move(f, item.Fail, queue.Command{ID: f.id, Error: "no"})
		case f.status == "started" && n < 17:
			r.move(f, item.Again, queue.Command{ID: f.id, Error: "not yet"})
		case f.status == "started" && n == 17:
			if _, err := r.own.Queues().Lapse(r.Context(), f.queue, []queue.Command{{ID: f.id}}); err != nil {
				r.Fatal(err)
			}
		case f.status == "failed" && n < 4:
			if _, err := r.own.Retry(r.Context(), f.queue, []int64{f.id}); err != nil {
				r.Fatal(err)
			}
		case f.status != "failed" && n == 18:
			r.move(f, item.Cancel, queue.Command{ID: f.id})
		}
	}
	switch r.rng.IntN(6) {
	case 0:
		r.retry(r.rng.IntN(20))
	case 1:
		if r.rng.IntN(4) == 0 {
			p := schema.Policies()[r.rng.IntN(4)]
			if _, err := r.own.Delete(r.Context(), p.Queue, true); err != nil && !errors.Is(err, queue.ErrNoQueue) {
				r.Fatal(err)
			}
			if err := r.again.MakeQueues(r.Context()); err != nil {
				r.Fatal(err)
			}
		}
	}
}

func (r *retries) move(f found, move item.Move, c queue.Command) bool {
	r.Helper()
	results, err := r.own.Queues().Apply(r.Context(), f.queue, move, []queue.Command{c})
	if err != nil {
		r.Fatal(err)
	}
	return results[0].Outcome == item.Changed
}

// end ends a retry with what a worker may say.
func (r *retries) end(f found) {
	r.Helper()
	var task schema.Task
	if err := json.Unmarshal([]byte(f.payload), &task); err != nil {
		r.Fatal(err)
	}
	of := place{schema.ID{Job: task.JobID, Index: task.BatchIndex}, task.Position}
	id, _ := json.Marshal(task.ContentID)
	if task.ContentID == "" {
		id = []byte(`"found"`)
	}
	said := fmt.Sprintf(`{"content_id":%s,"fetch_status":"success","text":"%d"}`, id, r.rng.IntN(9))
	switch r.rng.IntN(8) {
	case 0, 1:
		said = fmt.Sprintf(`{"content_id":%s,"fetch_status":"error","error_code":%q,"fetch_error":"no %d"}`, id,
			[]string{"RATE_LIMITED", "TIMEOUT", "CONTENT_REMOVED", "STORAGE_ERROR", "UNHEARD_OF"}[r.rng.IntN(5)], r.rng.IntN(9))
	case 2:
		said = `"no item"`
	case 3:
		said = `{"content_id":"another","fetch_status":"success"}`
	case 4:
		said = ""
	}
	before := r.row(of) // without one, an earlier item of the same has succeeded
	if r.move(f, item.Complete, queue.Command{ID: f.id, Result: []byte(said)}) && before != nil {
		o := schema.ReadRetry([]byte(said), task.ContentID)
		r.items[of] = append(r.items[of], outcome(o, []byte(said)))
		r.acted++
		r.follows(of, before, o)
	}
}

// errorRow is what Postgres has of an error, at a time of its clock.
type errorRow struct {
	state, category, queue string
	tries                  int
	due, at                time.Time
}

// row returns the row of an item, nil if it has none.
func (r *retries) row(of place) *errorRow {
	r.Helper()
	e := new(errorRow)
	err := r.pool.QueryRow(r.Context(), `SELECT state, category, queue, tries, due_at, clock_timestamp()
		FROM millrace.batch_error WHERE job_id = $1 AND batch_index = $2 AND position = $3`, of.Job, of.Index, of.position).
		Scan(&e.state, &e.category, &e.queue, &e.tries, &e.due, &e.at)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		r.Fatal(err)
	}
	return e
}

// follows holds that an error goes on after an outcome as its category says: it is tried again
// in the queue of that, after the wait of that attempt, as long as there are attempts.
func (r *retries) follows(of place, before *errorRow, o schema.Outcome) {
	r.Helper()
	after := r.row(of)
	if o.OK() != (after == nil) {
		r.Errorf("after the outcome %+v, the row of %+v is %+v", o, of, after)
	}
	if o.OK() || after == nil {
		return
	}
	policy, again := o.Category.Retry()
	tries := before.tries + 1
	again = again && tries < len(policy.Waits)
	// A queue that was deleted drops what waits for it, at any moment.
	waited := after.state != "error" || !after.due.Equal(before.due)
	early, late := false, false
	if after.state == "waiting" && tries < len(policy.Waits) {
		ended := after.due.Add(-policy.Waits[tries])
		early, late = ended.Before(before.at), ended.After(after.at)
	}
	if after.category != string(o.Category) || after.queue != policy.Queue || after.tries != tries || again != waited ||
		early || late {
		r.Errorf("after the outcome %+v, %+v of %+v is %+v", o, before, of, after)
	}
}

// retry has some errors tried again, of which some may be so already.
func (r *retries) retry(n int) {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), "SELECT id, generation FROM millrace.batch_error ORDER BY random() LIMIT $1", n)
	if err != nil {
		r.Fatal(err)
	}
	errs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[recrawl.Error])
	if err != nil || len(errs) == 0 {
		return
	}
	stale := r.rng.IntN(3) == 0
	if stale {
		errs[0].Generation--
	}
	var why []string
	err = r.own.Queues().Transact(r.Context(), "retry", func(t *queue.Tx) error {
		why, err = r.again.RetryIn(r.Context(), t, errs)
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	if stale && why[0] == "" {
		r.Errorf("an error is tried again that was another one when it was chosen: %+v", errs[0])
	}
}

// sound holds that batches count what their rows are, and rows are what their items are, all
// of one moment.
func (r *retries) sound() {
	r.Helper()
	for what, sql := range map[string]string{
		"batches that count wrongly": `SELECT count(*) FROM millrace.batch AS b LEFT JOIN (
				SELECT job_id, batch_index, count(*) AS n, count(*) FILTER (WHERE state = 'error') AS error
				FROM millrace.batch_error GROUP BY 1, 2
			) AS e USING (job_id, batch_index)
			WHERE (b.error, b.retrying, b.content_count - b.ok) IS DISTINCT FROM
				(coalesce(e.error, 0), coalesce(e.n - e.error, 0), coalesce(e.n, 0))`,
		"batches that count other codes": `SELECT count(*) FROM (
				SELECT b.job_id, b.batch_index, c.code, c.n::bigint FROM millrace.batch AS b, jsonb_each_text(b.errors) AS c (code, n)
			) AS b FULL JOIN (
				SELECT job_id, batch_index, code, count(*) AS n FROM millrace.batch_error GROUP BY 1, 2, 3
			) AS e USING (job_id, batch_index, code) WHERE b.n IS DISTINCT FROM e.n`,
		"rows that are not as their items": `SELECT count(*) FROM millrace.batch_error AS e
			LEFT JOIN millrace.item AS i ON i.id = e.item_id
			WHERE (e.state = 'queued') <> (i.status IS NOT NULL AND i.status IN ('new', 'started'))`,
	} {
		var n int
		if err := r.pool.QueryRow(r.Context(), sql).Scan(&n); err != nil {
			r.Fatal(err)
		}
		if n != 0 {
			r.Errorf("%d %s", n, what)
		}
	}
}

// stored waits until all outcomes are in ClickHouse, and compares them.
func (r *retries) stored() {
	r.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var left int
		if err := r.pool.QueryRow(r.Context(), "SELECT count(*) FROM millrace.message_outbox").Scan(&left); err != nil {
			r.Fatal(err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			r.Fatalf("%d outcomes are not published", left)
		}
	}
	r.settled()
	want := map[place]string{}
	for of, all := range r.items {
		want[of] = all[len(all)-1]
	}
	r.same("post_analytics", `SELECT job_id, batch_index, position, concat(content_id, ' ', error_category, ' ', error_code,
		' ', lower(hex(SHA256(content)))) FROM post_analytics`, want)
	for of, all := range r.items {
		want[of] = fmt.Sprint(len(all))
	}
	r.same("item_outcomes", `SELECT job_id, batch_index, position, if(count() = max(version) + 1,
		toString(count()), 'doubled') FROM item_outcomes GROUP BY job_id, batch_index, position`, want)
	rows, err := r.pool.Query(r.Context(), "SELECT job_id, batch_index, position, code FROM millrace.batch_error")
	if err != nil {
		r.Fatal(err)
	}
	clear(want)
	var of place
	var code string
	if _, err := pgx.ForEachRow(rows, []any{&of.Job, &of.Index, &of.position, &code}, func() error {
		want[of] = code
		return nil
	}); err != nil {
		r.Fatal(err)
	}
	r.same("crawl_errors", `SELECT job_id, batch_index, position, replaceAll(error_code, '\0', '\xef\xbf\xbd')
		FROM crawl_errors`, want)
}

// same compares what ClickHouse has of each item.
func (r *retries) same(what, sql string, want map[place]string) {
	r.Helper()
	rows, err := r.conn.Query(r.Context(), sql)
	if err != nil {
		r.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var of place
		var index, position uint32
		var got string
		if err := rows.Scan(&of.Job, &index, &position, &got); err != nil {
			r.Fatal(err)
		}
		of.Index, of.position = int32(index), int(position)
		if got != want[of] {
			r.Errorf("%s has %+v as\n%s, want\n%s", what, of, got, want[of])
		}
	}
	if n != len(want) {
		r.Errorf("%s has %d items, want %d", what, n, len(want))
	}
}

// TestRetries holds 6 and 7, and 1 to 5 of package recrawl. Workers report at random, people
// delete queues, cancel items and retry errors, processes end at any moment, and the stream
// has outcomes twice. Each batch counts what its items are, and each outcome is stored once.
func TestRetries(t *testing.T) {
	slowtest.Mark(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r, h := newRetries(t, seed), newHistory(seed)
	looks := 0
	stopLooking := embeddedtest.Go(t, func(ctx context.Context) error {
		for ; ctx.Err() == nil && !t.Failed(); looks++ {
			r.sound()
		}
		return nil
	})
	for range 6 {
		stop := r.processes()
		r.announce(h, 6)
		end := time.Now().Add(patience)
		for want := r.acted + 10 + h.rng.IntN(20); r.acted < want; {
			r.work()
			if r.errors() == 0 { // all have succeeded, or are not read yet
				if r.settled(); r.errors() == 0 {
					r.announce(h, 1)
				}
			}
			if time.Now().After(end) {
				t.Fatalf("%d retries have ended, want %d", r.acted, want)
			}
		}
		stop()
		r.twice(h.rng.IntN(3))
	}
	r.processes()
	r.settled()
	for range 20 {
		r.work()
	}
	r.stored()
	if stopLooking(); looks < 5 {
		t.Errorf("there were %d looks", looks)
	}
	most := 0
	for _, all := range r.items {
		most = max(most, len(all))
	}
	t.Logf("%d retries have ended; an item has up to %d outcomes", r.acted, most)
}

// errors returns how many items are errors, or are tried again.
func (r *retries) errors() (n int) {
	r.Helper()
	if err := r.pool.QueryRow(r.Context(), "SELECT count(*) FROM millrace.batch_error").Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

// TestRetryAmongIndexes: retries of batches with small indexes are stored beside batches with
// large ones, whose indexes need more bits (6).
func TestRetryAmongIndexes(t *testing.T) {
	r := newRetries(t, 1)
	now := time.Now().UTC()
	read := func(index int32, again *schema.Retry) *schema.Read {
		text := []byte(fmt.Sprintf(`{"content_id":"%d","fetch_status":"error","error_code":"CONTENT_REMOVED"}`, index))
		return &schema.Read{
			About:       schema.Announcement{Format: schema.Inline, Batch: schema.ID{Job: "p-b-0", Index: index}, Count: -1},
			AnnouncedAt: now, Hash: [32]byte{1}, Items: []schema.Item{{Outcome: schema.ReadItem(text), Content: text}}, Retry: again,
		}
	}
	retry := func(index int32) {
		publishRead(r, r.js, read(index, &schema.Retry{Version: 1, ReadAt: now.UnixNano()}))
	}
	for _, index := range []int32{0, 1, 70_000} {
		publishRead(r, r.js, read(index, nil))
	}
	retry(0)
	retry(70_000)
	stop := r.processes() // which store these side by side
	defer stop()
	r.settled()
	retry(1)
	r.settled()
	var n uint64
	if err := r.conn.QueryRow(t.Context(), "SELECT count() FROM item_outcomes WHERE version = 1").Scan(&n); err != nil || n != 3 {
		t.Errorf("%d outcomes of retries are stored, want 3: %v", n, err)
	}
}

// twice has the stream have some of the last messages once more, as a publisher may whose
// predecessor was killed.
func (r *retries) twice(n int) {
	r.Helper()
	st, err := r.js.Stream(r.Context(), stream.BatchesRead)
	if err != nil {
		r.Fatal(err)
	}
	last := st.CachedInfo().State.LastSeq
	for seq := last; seq > 0 && n > 0; seq-- {
		m, err := st.GetMsg(r.Context(), seq)
		if err != nil {
			continue // stored, and purged
		}
		var j parts.Joiner
		value, _ := j.Take(m.Data)
		if read, err := schema.ParseRead(value); err != nil || read.Retry == nil {
			continue
		}
		if _, err := r.js.Publish(r.Context(), stream.BatchesReadSubject, m.Data); err != nil {
			r.Fatal(err)
		}
		n--
	}
}
