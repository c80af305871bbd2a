package uploads

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// lease feeds once, and returns the lease of the queue in seconds, and that of an item which a worker takes that names none.
func (s *shop) lease() (ofQueue, ofItem float64, it work) {
	s.t.Helper()
	if _, err := s.feed.Step(s.t.Context(), "enrich"); err != nil {
		s.t.Fatal(err)
	}
	if err := s.feed.Leases(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	v, err := s.own.Get(s.t.Context(), "enrich")
	if err != nil {
		s.t.Fatal(err)
	}
	status, text := s.post(s.t.Context(), "/api/v1/queues/enrich/take", `{"worker":"w","limit":1}`)
	var out struct{ Items []work }
	if err := json.Unmarshal(text, &out); err != nil || len(out.Items) != 1 {
		s.t.Fatalf("take: %d %s, %v", status, text, err)
	}
	items := out.Items
	if err := s.pool.QueryRow(s.t.Context(), "SELECT extract(epoch FROM lease_until - given_at)::float8 FROM millrace.claim WHERE item_id = $1",
		items[0].ID).Scan(&ofItem); err != nil {
		s.t.Fatal(err)
	}
	return v.Lease(), ofItem, items[0]
}

// held ends an item that its worker has had for so many seconds.
func (s *shop) held(it work, seconds float64) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), "UPDATE millrace.item SET taken_at = now() - $2 * interval '1 second' WHERE id = $1",
		it.ID, seconds); err != nil {
		s.t.Fatal(err)
	}
	s.report(it, "done", `,"result":{}`)
}

// lapse has the lease of an item end.
func (s *shop) lapse(it work) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), "UPDATE millrace.claim SET lease_until = now() - interval '1 hour' WHERE item_id = $1", it.ID); err != nil {
		s.t.Fatal(err)
	}
	for state := ""; state != "new"; time.Sleep(5 * time.Millisecond) {
		var err error
		if state, err = s.own.State(s.t.Context(), s.q, it.ID); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestLeases: the lease of a queue follows how long workers have the items of an upload, through a step in latency: that of
// fast items is short, also when workers die with some, slow ones are not taken away, and those that outlive their lease get
// one that is twice as long. The consumer of NATS has it, too. Time does not pass: the test moves when items were taken.
func TestLeases(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.watch()
	s.run(schema.Bounds{})
	id := s.made("x.csv", []byte("n\n"+strings.Repeat("7\n", 400)), "processor", "enrich")
	s.until(id, "read", func(j uploads.Job) bool { return j.ReadAll })
	expect := func(when string, got, want float64) {
		t.Helper()
		if got < want*0.85 || got > want*1.15 {
			t.Errorf("%s, the lease is %.1f s, want about %.1f", when, got, want)
		}
	}
	_, ofItem, it := s.lease()
	expect("while nothing is known", ofItem, 30)
	for range 50 {
		s.held(it, 0.1)
		_, ofItem, it = s.lease()
	}
	expect("of fast items", ofItem, 10) // the floor
	s.consumer(10)

	s.held(it, 9) // a step of 90 times: nothing of it was taken away
	_, ofItem, it = s.lease()
	expect("behind the first slow item", ofItem, 18)
	s.lapse(it)
	ofQueue, ofItem, it := s.lease()
	expect("behind an item that outlived its lease", ofQueue, 36)
	expect("behind an item that outlived its lease", ofItem, 36)
	s.lapse(it)
	_, ofItem, it = s.lease()
	expect("behind another one", ofItem, 72)
	for range 10 {
		s.lapse(it)
		_, ofItem, it = s.lease()
		if it.Attempt > 3 { // another lapse or two, and it is an error
			s.report(it, "done", `,"result":{}`)
			_, ofItem, it = s.lease()
		}
	}
	expect("of items that never end", ofItem, 270) // 30 times what the slow one took

	for range 160 {
		s.held(it, 0.1)
		_, ofItem, it = s.lease()
	}
	expect("when items are fast again", ofItem, 10)
	s.lapse(it)
	_, ofItem, it = s.lease()
	expect("behind a worker that has died with one of the fast items", ofItem, 10)
	s.held(it, 0.1)
	s.sound()
	if status, text := s.send("POST", "/api/v1/uploads/"+id.String()+"/cancel", "", nil); status != 200 {
		t.Fatal(status, text)
	}
	if err := s.feed.Leases(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := s.own.Get(t.Context(), "enrich"); err != nil || v.Lease() != 30 {
		t.Error("without uploads, the lease is that of the queue:", v.Lease(), err)
	}
	if made, err := s.own.Create(t.Context(), queue.Settings{Name: "enrich", LeaseS: 30, RetentionS: 3600, MaxItems: 100_000}); err != nil || made {
		t.Error("the queue is another one:", made, err)
	}
}

// consumer waits until daemons on NATS have so many seconds.
func (s *shop) consumer(seconds float64) {
	s.t.Helper()
	js, err := jetstream.New(s.nc)
	if err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := js.Consumer(s.t.Context(), stream.Work, "enrich")
		if err == nil && c.CachedInfo().Config.AckWait.Seconds() == seconds {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the consumer has %v, %v, want %g s", c, err, seconds)
		}
	}
}
