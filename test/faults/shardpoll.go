package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// reply is what came of a request that was sent until it was answered.
type reply struct {
	status int  // 0: it was not, in the time there was
	sure   bool // it was sent once
	asked  time.Time
}

// insist sends a request until it is answered with something other than "try
// again".
func (s *shards) insist(ctx context.Context, path string, body, into any) (r reply) {
	for r.sure = true; ctx.Err() == nil; r.sure = false {
		r.asked = time.Now()
		status, err := s.post(ctx, path, body, into)
		if err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			if r.status = status; status >= 500 {
				s.notes.fail("POST %s %v: status %d", path, body, status)
			}
			s.notes.answered(r.asked)
			return r
		}
		wait(ctx, 200*time.Millisecond)
	}
	return r
}

// post sends a request to the next of the processes that take some.
func (s *shards) post(ctx context.Context, path string, body, into any) (status int, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	addr := s.ingest[int(s.serial.Add(1))%len(s.ingest)]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/v1/pipeline"+path,
		bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.web.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK && into != nil {
		err = json.Unmarshal(answer, into)
	}
	return resp.StatusCode, err
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

// takenItem is one that a poller has, or that stands in a queue.
type takenItem struct {
	Filename   string
	Shard      int
	Generation int // 0: it was started by name
}

// poller takes items over HTTP, some by name, as daemons do that read the
// queues.
func (s *shards) poller(ctx context.Context, i int) error {
	random := rand.New(rand.NewPCG(s.seed, 10+uint64(i)))
	for ctx.Err() == nil {
		stage := shardStages[random.IntN(len(shardStages))]
		worker := fmt.Sprintf("poller-%d-%d", i, s.serial.Add(1))
		asked := time.Now()
		var items []takenItem
		if random.IntN(5) == 0 {
			items = s.startNamed(ctx, stage, worker)
		} else {
			items = s.take(ctx, stage, worker, 1+random.IntN(4))
		}
		for _, it := range items {
			s.notes.took(piece{it.Filename, it.Shard, stage}, worker, asked, asked.Add(shardLease))
		}
		for _, it := range items {
			s.answer(ctx, random, stage, worker, it, asked)
		}
		if len(items) == 0 {
			wait(ctx, time.Duration(50+random.IntN(150))*time.Millisecond)
		}
	}
	return nil
}

func (s *shards) take(ctx context.Context, stage, worker string, limit int) []takenItem {
	var taken struct{ Items []takenItem }
	asked := time.Now()
	status, err := s.post(ctx, "/queues/"+stage+"/take",
		map[string]any{"worker": worker, "limit": limit, "lease_s": shardLease.Seconds()}, &taken)
	if err != nil || status != http.StatusOK {
		return nil // what was taken by it nobody has: the lease ends
	}
	s.notes.answered(asked)
	return taken.Items
}

// startNamed starts the first item that a page of the queue names.
func (s *shards) startNamed(ctx context.Context, stage, worker string) []takenItem {
	body, err := fetchOnce(ctx, http.MethodGet, "http://"+s.query+"/api/v1/pipeline/queues/"+stage+"?limit=3", "")
	if err != nil {
		return nil
	}
	var page struct{ Items []takenItem }
	if json.Unmarshal(body, &page) != nil || len(page.Items) == 0 {
		return nil
	}
	it := page.Items[len(page.Items)-1]
	status, err := s.post(ctx, "/stages/"+stage+"/start", map[string]any{
		"filename": it.Filename, "shard": it.Shard, "worker": worker, "lease_s": shardLease.Seconds(),
	}, nil)
	if err != nil || status != http.StatusOK {
		return nil
	}
	return []takenItem{{Filename: it.Filename, Shard: it.Shard}}
}

// answer says what became of an item, at a whim: done, mostly.
func (s *shards) answer(ctx context.Context, random *rand.Rand, stage, worker string, it takenItem, asked time.Time) {
	whim := random.IntN(100)
	if s.honest.Load() {
		whim = 99
	}
	move, options := "done", map[string]any{"filename": it.Filename, "shard": it.Shard, "worker": worker}
	if it.Generation > 0 {
		options["generation"] = it.Generation
	}
	late := false
	switch {
	case s.notes.poison(it.Filename) && stage == shardStages[poisoned]:
		move, options["error"] = "fail", "poison"
	case whim < 4:
		return // gone without a word
	case whim < 8:
		late = true
	case whim < 12:
		move, options["error"] = "fail", "somebody has to mend it"
	case whim < 16:
		move, options["error"], options["delay_s"] = "again", "not now", random.Float64()
	case whim < 18:
		move = "release"
	case whim < 23:
		s.extend(ctx, stage, options)
	case whim < 30:
		s.tell(ctx, stage, move, worker, options, asked) // and again
	}
	if late {
		after := shardLease + time.Duration(random.IntN(1500))*time.Millisecond
		go func() { // the run outlasts it, or it says nothing
			wait(ctx, after)
			s.tell(ctx, stage, move, worker, options, asked)
		}()
		return
	}
	s.tell(ctx, stage, move, worker, options, asked)
}

// extend moves the end of the lease. What it says of holding is not used: the
// first lease is the one that is sure.
func (s *shards) extend(ctx context.Context, stage string, options map[string]any) {
	with := map[string]any{"lease_s": shardLease.Seconds()}
	for k, v := range options {
		with[k] = v
	}
	s.insist(ctx, "/stages/"+stage+"/extend", with, nil)
}

// tell says how an item goes on. Within the lease it is not refused, but when
// the clock has jumped.
func (s *shards) tell(ctx context.Context, stage, move, worker string, options map[string]any, asked time.Time) {
	p := piece{options["filename"].(string), options["shard"].(int), stage}
	s.notes.leaves(p, worker)
	r := s.insist(ctx, "/stages/"+stage+"/"+move, options, nil)
	switch {
	case r.status == http.StatusOK && options["generation"] != nil:
		s.notes.ended(end{p, move, worker})
	case r.status == http.StatusOK: // by name alone: it is so, whoever has made it so
		if move == "done" {
			s.notes.ended(end{piece: p, move: move})
		}
	case r.status == 0: // the run is over
	case r.status != http.StatusConflict:
		s.notes.fail("%s of %v: status %d", move, p, r.status)
	case r.sure && time.Since(asked) < shardLease && s.notes.lasts(asked):
		s.notes.fail("%s of %v by %s: refused %s after it was asked for, within a lease of %s", move, p, worker,
			time.Since(asked), shardLease)
	}
}
