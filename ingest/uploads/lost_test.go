package uploads

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// retrying is a shop whose rows are fed by steps, so that nothing moves but what a test asks for.
type retrying struct {
	*shop
	id uuid.UUID
}

func openRetrying(t *testing.T, rows int) *retrying {
	t.Helper()
	s := openShop(t, auth.Config{})
	s.watch()
	s.run(schema.Bounds{})
	text, _ := sample(rows)
	r := &retrying{s, s.made("x.csv", []byte(text), "processor", "enrich")}
	s.until(r.id, "persisted", func(j uploads.Job) bool { return j.ReadAll })
	r.step()
	return r
}

func (r *retrying) step() {
	r.t.Helper()
	if _, err := r.feed.Step(r.t.Context(), "enrich"); err != nil {
		r.t.Fatal(err)
	}
}

// consistent is sound, but rows may end several times.
func (r *retrying) consistent() {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), "TRUNCATE ended.final"); err != nil {
		r.t.Fatal(err)
	}
	r.sound()
}

// act does something with the upload.
func (r *retrying) act(what string) {
	r.t.Helper()
	if status, text := r.send(http.MethodPost, "/api/v1/uploads/"+r.id.String()+"/"+what, "application/json", nil); status != 200 {
		r.t.Fatalf("%s: %d %s", what, status, text)
	}
}

// retry asks for an item to be brought back; rule: it is refused by this.
func (r *retrying) retry(id int64, rule string) {
	r.t.Helper()
	status, text := r.post(r.t.Context(), fmt.Sprintf("/api/v1/queues/enrich/items/%d/retry", id), "{}")
	if rule == "" && status != 200 || rule != "" && (status != 409 || !strings.Contains(string(text), rule)) {
		r.t.Errorf("retry of item %d: %d %s, want the rule %q", id, status, text, rule)
	}
	r.consistent()
}

// all asks for all items in a state to be brought back, and wants none to be.
func (r *retrying) all(state string) {
	r.t.Helper()
	status, text := r.post(r.t.Context(), "/api/v1/queues/enrich/retry-failed", `{"state":"`+state+`"}`)
	if status != 200 || string(text) != "{\"count\":0}\n" {
		r.t.Errorf("retry of all items that are %s: %d %s", state, status, text)
	}
	r.consistent()
	if got := r.take(r.t.Context(), 100, 30); len(got) > 0 {
		r.t.Errorf("%d items without rows were handed out", len(got))
	}
}

const (
	goneRule   = "must be of a row that is ERROR in an upload that goes on: reprocess the row"
	pausedRule = "must be of an upload that is not paused: resume it"
)

// TestRetryOfLost (6): an item is brought back with its row, and not where that has ended or gone on without it.
func TestRetryOfLost(t *testing.T) {
	r := openRetrying(t, 4)
	items := r.taken(4)
	for _, it := range items[:3] {
		r.report(it, "fail", `,"error":"x","permanent":true`)
	}
	r.retry(items[0].ID, "")
	r.report(r.taken(1)[0], "fail", `,"error":"x","permanent":true`)
	r.act("pause")
	r.retry(items[0].ID, pausedRule)
	r.act("resume")
	r.act("reprocess")
	r.retry(items[0].ID, goneRule)
	r.all("failed")
	r.step()
	again := r.taken(3)
	for _, it := range again {
		r.report(it, "fail", `,"error":"x","permanent":true`)
	}
	// Those that stay as they are, and are older, are not in the way of others.
	if _, text := r.post(t.Context(), "/api/v1/queues/enrich/retry-failed", `{"limit":2}`); string(text) != "{\"count\":2}\n" {
		t.Errorf("two items are brought back: %s", text)
	}
	for _, it := range r.taken(2) {
		r.report(it, "fail", `,"error":"x","permanent":true`)
	}
	r.act("cancel")
	r.until(r.id, "cancelled", ended)
	for _, it := range []work{items[0], items[3], again[0]} {
		r.retry(it.ID, goneRule)
	}
	r.all("cancelled")
	r.all("failed")
}

// TestRetryOfWithdrawn (6): items that a pause has withdrawn stay so, and each row is worked once when it goes on.
func TestRetryOfWithdrawn(t *testing.T) {
	r := openRetrying(t, 5)
	r.act("pause")
	r.all("cancelled")
	r.act("resume")
	r.all("cancelled")
	r.step()
	for _, it := range r.taken(5) {
		r.report(it, "done", `,"result":{}`)
	}
	if j := r.until(r.id, "done", ended); j.Counts[schema.StatusDone] != 5 {
		t.Errorf("%v", j.Counts)
	}
	r.consistent()
}

// TestRetryWhileCancelled (6): a row that ends while its item is being brought back keeps it from that.
func TestRetryWhileCancelled(t *testing.T) {
	r := openRetrying(t, 1)
	it := r.taken(1)[0]
	r.report(it, "fail", `,"error":"x","permanent":true`)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE millrace.upload SET cancelled_at = now()"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		results, err := r.own.Retry(t.Context(), r.q, []int64{it.ID})
		if err == nil && (results[0].Outcome != item.Forbidden || results[0].Rule != goneRule) {
			err = fmt.Errorf("%+v", results[0])
		}
		answer <- err
	}()
	for waits, deadline := false, time.Now().Add(time.Minute); !waits; {
		if err := r.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND datname = current_database())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the item is brought back without a look at its upload")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Error(err)
	}
	r.consistent()
}

// TestRetryByEarlierVersion (6): items that a process brings back which knows nothing of rows end when they are found, and
// those that have rows stay.
func TestRetryByEarlierVersion(t *testing.T) {
	r := openRetrying(t, 3)
	r.act("pause")
	before, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, r.pool, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	var ids []queue.Command
	rows, err := r.pool.Query(t.Context(), "SELECT id FROM millrace.item ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var c queue.Command
		if err := rows.Scan(&c.ID); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c)
	}
	results, err := before.Apply(t.Context(), r.q, item.Retry, ids)
	if err != nil || len(results) != 3 || results[2].Outcome != item.Changed {
		t.Fatalf("%+v, %v", results, err)
	}
	r.act("resume")
	r.step()
	if n, err := r.feed.MendItems(t.Context()); err != nil || n != 3 {
		t.Errorf("%d items are ended, %v", n, err)
	}
	r.consistent()
	if got := r.taken(3); len(got) != 3 {
		t.Errorf("%d items", len(got))
	}
	if n, err := r.feed.MendItems(t.Context()); err != nil || n != 0 {
		t.Errorf("%d items are ended again, %v", n, err)
	}
}
