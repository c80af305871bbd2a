package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// shardStages are those that have queues, in their order.
var shardStages = []string{"shard-splitter", "shard-worker", "mysql-sender"}

// fileEvery is how often a file is registered: of 2.5 shards on average, of 3
// pieces each.
const fileEvery = 500 * time.Millisecond

// shards is the second workload: files are registered, and a crew works their
// shards through the stages.
type shards struct {
	*crew
	notes   *shardNotes
	dsn     recordOf            // of Postgres
	natsURL string              // of who registers files
	apart   bool                // the workers of -work have them, who know of no poison
	js      jetstream.JetStream // over no wire
}

func newShards(seed uint64, c *cluster, js jetstream.JetStream) *shards {
	notes := newShardNotes(c.postgres.clock)
	s := &shards{
		crew: newCrew(seed, c, notes.workNotes, shardStages...), notes: notes, dsn: recordOf(c.postgresURL(c.postgresAddr)),
		natsURL: c.publishURL(), js: js,
	}
	s.doomed = notes.poisonous
	return s
}

// file is one to register.
type file struct {
	name    string
	shards  []int
	overJS  bool // it is reported on the stream SHARDS
	twice   bool
	poison  bool // shard-worker fails for good
	strange bool // a report that breaks a rule comes before it
}

// poisoned is where a poisonous file fails.
const poisoned = 1

func nextFile(random *rand.Rand, i int) file {
	f := file{
		name: fmt.Sprint(20250101000000 + i), overJS: random.IntN(4) == 0, twice: random.IntN(5) == 0,
		strange: i%20 == 3, poison: i%20 == 7,
	}
	for n := range 1 + random.IntN(4) {
		f.shards = append(f.shards, n)
	}
	return f
}

// run registers files until registering ends, and works until working ends.
func (s *shards) run(registering, working context.Context) error {
	nc, err := connect(s.natsURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	g, working := errgroup.WithContext(working)
	files := make(chan file)
	for range 3 {
		g.Go(func() error {
			for f := range files {
				s.register(working, js, f)
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(files)
		random := rand.New(rand.NewPCG(s.seed, 5))
		every := time.NewTicker(fileEvery)
		defer every.Stop()
		for i := 0; ; i++ {
			select {
			case <-every.C:
			case <-registering.Done():
				return nil
			}
			f := nextFile(random, i)
			f.poison = f.poison && !s.apart
			select {
			case files <- f:
			case <-working.Done():
				return nil
			}
		}
	})
	if !s.apart {
		g.Go(func() error { return s.work(working) })
	}
	g.Go(func() error { return s.operate(working) })
	return g.Wait()
}

// register makes a file known, completes it, and goes on until both is
// acknowledged.
func (s *shards) register(ctx context.Context, js jetstream.JetStream, f file) {
	s.notes.begun(f)
	if f.strange {
		s.strange(ctx, js, f.name)
	}
	for range 1 + btoi(f.twice) {
		known, complete := s.registerHTTP, s.completeHTTP
		if f.overJS {
			known, complete = s.registerJS, s.completeJS
		}
		if !known(ctx, js, f) {
			return
		}
		s.notes.registered(f)
		if !complete(ctx, js, f) {
			return
		}
	}
}

func (s *shards) registerHTTP(ctx context.Context, _ jetstream.JetStream, f file) bool {
	return s.accepted(ctx, "/pipeline/files/register", map[string]any{"filename": f.name, "shards": f.shards})
}

func (s *shards) completeHTTP(ctx context.Context, _ jetstream.JetStream, f file) bool {
	return s.accepted(ctx, "/pipeline/stages/event-ingest/done", map[string]any{"filename": f.name})
}

// accepted insists on a request that breaks no rule.
func (s *shards) accepted(ctx context.Context, path string, body any) bool {
	status := s.insist(ctx, path, body, nil).status
	if status != http.StatusOK && ctx.Err() == nil {
		s.notes.fail("POST %s %v: status %d", path, body, status)
	}
	return status == http.StatusOK
}

func (s *shards) registerJS(ctx context.Context, js jetstream.JetStream, f file) bool {
	return s.report(ctx, js, "", "register", stream.ShardReport{Filename: f.name, Shards: int64s(f.shards)})
}

func (s *shards) completeJS(ctx context.Context, js jetstream.JetStream, f file) bool {
	return s.report(ctx, js, "event-ingest", "done", stream.ShardReport{Filename: f.name})
}

// strange sends a report that breaks a rule: it has to become one dead letter.
func (s *shards) strange(ctx context.Context, js jetstream.JetStream, name string) {
	number := int64(0)
	s.notes.strange(
		s.report(ctx, js, shardStages[0], "done", stream.ShardReport{Filename: "unknown-" + name, Shard: &number}),
		"unknown-"+name,
	)
}

// report publishes on SHARDS until the stream has it.
func (s *shards) report(ctx context.Context, js jetstream.JetStream, stage, move string, r stream.ShardReport) bool {
	data, err := json.Marshal(r)
	if err != nil {
		s.notes.fail("report %v: %v", r, err)
		return false
	}
	id := stage + move + r.Filename
	return backoff.Do(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, stream.ShardSubject(stage, move), data, jetstream.WithMsgID(id),
			jetstream.WithRetryAttempts(0))
		return err
	}, nil) == nil
}

// operate has what has failed tried again, as somebody would who has mended the
// cause.
func (s *shards) operate(ctx context.Context) error {
	for ctx.Err() == nil {
		for _, p := range s.failures(ctx) {
			it := map[string]any{"filename": p.file, "shard": p.shard}
			got := s.insist(ctx, "/pipeline/stages/"+p.stage+"/retry", it, nil)
			if got.status != http.StatusOK && got.status != http.StatusConflict && ctx.Err() == nil {
				s.notes.fail("retry of %v: status %d", p, got.status)
			}
		}
		wait(ctx, time.Second)
	}
	return nil
}

// beyond waits until the work goes on: something was acknowledged and put on a
// queue that was asked for, or ready, after a moment.
func (s *shards) beyond(begin time.Time, limit time.Duration) bool {
	last, known := s.published()
	return within(limit, func() bool {
		now, ok := s.published()
		if !known { // it was not to be had at the beginning
			last, known = now, ok
		}
		return ok && known && now > last && s.notes.lastAsked().After(begin)
	})
}

func (s *shards) published() (seq uint64, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := s.js.Stream(ctx, stream.Work)
	if err != nil {
		return 0, false
	}
	return st.CachedInfo().State.LastSeq, true
}

func int64s(list []int) (out []int64) {
	for _, n := range list {
		out = append(out, int64(n))
	}
	return out
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
