package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// enqueue adds items to a queue.
func (h *house) enqueue(name string, n int) {
	h.Helper()
	if _, err := client.Enqueue(h.Context(), h.nc, name, make([]client.NewItem, n)...); err != nil {
		h.Fatal(err)
	}
}

// ackWaitOf returns the lease that the server holds for a queue.
func (h *house) ackWaitOf(name string) time.Duration {
	c, err := h.js.Consumer(h.Context(), stream.Work, name)
	if err != nil {
		return 0
	}
	return c.CachedInfo().Config.AckWait
}

// TestLeaseOfQueue: the lease of a queue holds for daemons that pull; stages, which have
// none, have that of the installation.
func TestLeaseOfQueue(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	h.own("mail", func(v *queue.Settings) { v.LeaseS = 600 })
	h.until("the leases", func() (string, bool) {
		mail, stage := h.ackWaitOf("mail"), h.ackWaitOf(shard.Splitter.String())
		return fmt.Sprint(mail, stage), mail == 10*time.Minute && stage == quick
	})
	h.stop()
	h.serve() // it leaves the lease as it is
	h.until("the lease", func() (string, bool) {
		return "", h.ackWaitOf("mail") == 10*time.Minute
	})
}

// TestLateAck: an item that is acknowledged after the server has given it up is done, if
// nobody has begun it since (invariant 9).
func TestLateAck(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	s := h.own("mail", func(v *queue.Settings) { v.MaxAttempts = 1 })
	h.until("1 delivery at most", func() (string, bool) {
		c, err := h.js.Consumer(t.Context(), stream.Work, "mail")
		return "", err == nil && c.CachedInfo().Config.MaxDeliver == 1
	})
	h.enqueue("mail", 1)
	m := h.pullOwn("mail", 1)[0]
	c, err := h.js.Consumer(t.Context(), stream.Work, "mail")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() { // the server gives the message up when somebody asks for it
		_, err := c.Fetch(1, jetstream.FetchContext(ctx))
		asked <- err
	}()
	h.awaitOwn(s, "mail", "dead", 1)
	cancel()
	if err := errors.Join(<-asked, m.Ack()); err != nil {
		t.Fatal(err)
	}
	h.awaitOwn(s, "mail", "done", 1)
	if got := h.counts("SELECT move::text, count(*) FROM millrace.history WHERE stage >= 100 GROUP BY 1"); got["fail"] > 0 {
		t.Errorf("history %v, want no failure that a worker has told", got)
	}
}

// TestLateAckOfLost: an item whose message is gone is given back when its daemon is
// silent, and is done when the daemon acknowledges it before somebody else has begun it;
// after that the acknowledgement changes nothing (invariant 9).
func TestLateAckOfLost(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, quick)
	s := h.own("mail")
	h.enqueue("mail", 2)
	msgs := h.pullOwn("mail", 2)
	h.awaitOwn(s, "mail", "started", 2)
	for _, m := range msgs {
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if err := h.stream().DeleteMsg(t.Context(), meta.Sequence.Stream); err != nil {
			t.Fatal(err)
		}
	}
	h.awaitOwn(s, "mail", "new", 2)
	other := h.pullOwn("mail", 1)[0] // of one of them
	h.awaitOwn(s, "mail", "started", 1)
	for _, m := range msgs {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	h.awaitOwn(s, "mail", "done", 1)
	h.awaitOwn(s, "mail", "started", 1)
	if err := other.Ack(); err != nil {
		t.Fatal(err)
	}
	h.awaitOwn(s, "mail", "done", 2)
	h.until("an empty stream", func() (string, bool) { return fmt.Sprint(h.messages()), h.messages() == 0 })
}

// reporting is a house with a queue, and reports over NATS.
type reporting struct {
	*house
	s *userqueue.Store
	q queue.ID
}

func newReporting(t *testing.T, change ...func(*queue.Settings)) *reporting {
	t.Helper()
	r := &reporting{house: newHouse(t, 30*time.Second)}
	r.s = r.own("mail", change...)
	v, err := r.s.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	r.q = v.ID
	reports, err := userqueue.NewReports(r.s, r.hands)
	if err != nil {
		t.Fatal(err)
	}
	r.run(func(ctx context.Context) error { return reports.Serve(ctx, r.nc, testLog(t)) })
	r.until("reports to be taken", func() (string, bool) {
		_, err := r.nc.Request(stream.WorkReport, nil, time.Second)
		return "", err == nil
	})
	return r
}

// report says something of the item of a message, as any client of NATS can.
func (r *reporting) report(m jetstream.Msg, word, members string) (answer stream.Reported) {
	r.Helper()
	it, err := stream.ParseQueueItem(m.Data())
	if err != nil {
		r.Fatal(err)
	}
	return r.ask(fmt.Sprintf(`{"queue":"mail","id":%d,"generation":%d,"report":%q%s}`, it.ID, it.Generation, word, members))
}

func (r *reporting) ask(body string) (answer stream.Reported) {
	r.Helper()
	m, err := r.nc.Request(stream.WorkReport, []byte(body), time.Minute)
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil {
		r.Fatal(err)
	}
	return answer
}

// only returns the item that has a state.
func (r *reporting) only(state string) userqueue.Stored {
	r.Helper()
	items, err := r.s.Items(r.Context(), userqueue.Page{Queue: r.q, State: state, Limit: 10})
	if err != nil || len(items) != 1 {
		r.Fatal(state, items, err)
	}
	return items[0]
}

// TestReportsOfPulled: a daemon that has pulled an item says what became of it with a
// result and progress, at once and later, and once.
func TestReportsOfPulled(t *testing.T) {
	t.Parallel()
	r := newReporting(t, func(v *queue.Settings) { v.BackoffS = []float64{0} })
	r.enqueue("mail", 1)
	m := r.pullOwn("mail", 1)[0]
	const result = `,"result":{"articles_count":47}`
	for _, want := range []int{1, 1} { // also when it is repeated
		a := r.report(m, "done", result)
		if a.State != "done" || a.Error != "" || int(a.Attempts) != want {
			t.Fatalf("%+v", a)
		}
	}
	if it := r.only("done"); string(it.Result) != `{"articles_count":47}` {
		t.Errorf("result %s", it.Result)
	}
	r.until("an empty stream", func() (string, bool) { return "", r.messages() == 0 })

	r.enqueue("mail", 1)
	m = r.pullOwn("mail", 1)[0]
	r.awaitOwn(r.s, "mail", "started", 1) // watch has seen it
	if a := r.report(m, "extend", `,"progress":"page 3"`); a.State != "started" || a.Error != "" {
		t.Fatalf("%+v", a)
	}
	if it := r.only("started"); it.Progress != "page 3" || it.LeaseUntil != nil {
		t.Errorf("progress %q, lease %v", it.Progress, it.LeaseUntil)
	}
	if a := r.report(m, "fail", `,"error":"no"`); a.State != "new" || a.Error != "" {
		t.Fatalf("%+v", a)
	}
	if a := r.report(m, "done", result); !a.Refused || a.Errors[0].Field != "state" || a.State != "new" {
		t.Errorf("done after it was given back: %+v", a)
	}
	m = r.pullOwn("mail", 1)[0]
	if a := r.report(m, "release", ""); a.State != "new" || a.Attempts != 1 {
		t.Errorf("%+v", a)
	}
	m = r.pullOwn("mail", 1)[0]
	if a := r.report(m, "fail", `,"permanent":true,"error":"gone"`); a.State != "failed" || a.Error != "" {
		t.Errorf("%+v", a)
	}
	if it := r.only("failed"); it.Error != "gone" {
		t.Errorf("error %q", it.Error)
	}
	r.until("an empty stream", func() (string, bool) { return "", r.messages() == 0 })
}

// TestReportsRefused: a worker cannot report of items that it does not have, and learns
// which member breaks which rule.
func TestReportsRefused(t *testing.T) {
	t.Parallel()
	r := newReporting(t)
	r.enqueue("mail", 1)
	r.until("a message", func() (string, bool) { return "", r.messages() == 1 })
	body := func(more string) string { return `{"queue":"mail","id":1,"generation":1,"report":"done"` + more + `}` }
	refused := func(body, field string) {
		t.Helper()
		a := r.ask(body)
		i := slices.IndexFunc(a.Errors, func(f stream.ReportFault) bool { return f.Field == field })
		if !a.Refused || i < 0 || !strings.Contains(a.Error, a.Errors[i].Rule) {
			t.Errorf("%s: %+v, want a rule about %s", body, a, field)
		}
	}
	refused(body(""), "state") // nobody has pulled it
	m := r.pullOwn("mail", 1)[0]
	refused(`{"queue":"mail","id":1,"generation":3,"report":"done"}`, "state")
	refused(`{"queue":"mail","id":9,"generation":1,"report":"done"}`, "id")
	refused(`{"queue":"none","id":1,"generation":1,"report":"done"}`, "queue")
	refused(`{"queue":"shard-worker","id":1,"generation":1,"report":"done"}`, "queue")
	refused(`{"report":"finish"}`, "queue")
	refused(`{"report":"finish"}`, "generation")
	refused(`{"report":"finish"}`, "report")
	refused(body(`,"resutl":{}`), "resutl")
	refused(body(`,"error":7`), "error")
	refused(body(`,"delay_s":-1`), "delay_s")
	refused(body(`,"result":"`+strings.Repeat("x", 70_000)+`"`), "result")
	refused(`{"queue":"mail","id":1,"generation":1,"report":"extend","lease_s":90}`, "lease_s")
	refused(`done`, "request")
	refused(`[]`, "request")
	if a := r.report(m, "done", ""); a.Error != "" {
		t.Errorf("%+v", a)
	}
}

// TestResult: what a handler says that its work has come to stands at its item.
func TestResult(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	h.enqueue("mail", 1)
	if err := client.SetResult(t.Context(), 1); err == nil {
		t.Error("a result outside of a handler is none")
	}
	h.run(func(ctx context.Context) error {
		return client.Work(ctx, h.nc, "mail", func(ctx context.Context, _ client.Item) error {
			if err := client.SetResult(ctx, map[string]int{"articles_count": 47}); err != nil {
				return err
			}
			if client.SetResult(ctx, strings.Repeat("x", 70_000)) == nil || client.SetResult(ctx, func() {}) == nil {
				return errors.New("a result that cannot be kept was taken")
			}
			return nil
		}, client.WorkConfig{})
	})
	h.awaitOwn(s, "mail", "done", 1)
	got := h.counts(`SELECT result::text, count(*) FROM millrace.item GROUP BY 1`)
	if len(got) != 1 || got[`{"articles_count":47}`] != 1 {
		t.Errorf("results %v", got)
	}
}

// TestClientLease: a worker that names no lease has its items for the lease of the queue.
func TestClientLease(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail", func(v *queue.Settings) { v.LeaseS = 600 })
	h.enqueue("mail", 1)
	end := make(chan struct{})
	h.run(func(ctx context.Context) error {
		return client.Work(ctx, h.nc, "mail", func(context.Context, client.Item) error {
			<-end
			return nil
		}, client.WorkConfig{})
	})
	h.awaitOwn(s, "mail", "started", 1)
	long := h.counts("SELECT 'long', count(*) FROM millrace.claim WHERE lease_until > now() + interval '5 minutes'")
	if long["long"] != 1 {
		t.Error("the lease is not that of the queue")
	}
	close(end)
	h.awaitOwn(s, "mail", "done", 1)
}
