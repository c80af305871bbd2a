package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Times of daemons: short, so that those who vanish are many in a run.
const (
	workLease   = 3 * time.Second
	workAckWait = 4 * time.Second
)

// crew is the daemons that work some queues: pollers over HTTP, the Go client, and
// stock consumers that acknowledge. At a whim they vanish with what they have, answer
// late, twice, or with a failure.
type crew struct {
	seed    uint64
	notes   *workNotes
	ingest  []string // addresses
	query   string
	workURL string
	lease   time.Duration
	queues  []string
	own     bool             // the queues are user-defined: their items have numbers
	doomed  func(piece) bool // it fails for good
	taken   func(piece) bool // it may be taken from its worker by others than a lease
	web     *http.Client
	honest  atomic.Bool // whoever takes an item works it, and says so
	serial  atomic.Int64

	mu    sync.Mutex
	kills int // that go on
	lives map[int64]context.CancelCauseFunc
}

func newCrew(seed uint64, c *cluster, notes *workNotes, queues ...string) *crew {
	never := func(piece) bool { return false }
	return &crew{
		seed: seed, notes: notes, lease: workLease, ingest: []string{c.ingestAddr, c.otherIngestAddr}, query: c.queryAddr,
		workURL: c.shared.natsURL(stream.RoleWorker), queues: queues, doomed: never, taken: never,
		web: &http.Client{Timeout: 8 * time.Second}, lives: map[int64]context.CancelCauseFunc{},
	}
}

// work works until ctx ends.
func (c *crew) work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range 2 {
		g.Go(func() error { return c.poller(ctx, i) })
		g.Go(func() error { return c.clients(ctx, i) })
		g.Go(func() error { return c.stock(ctx, i) })
	}
	return g.Wait()
}

// errKilled is why a life has ended that was killed.
var errKilled = errors.New("the daemon was killed")

func killed(life context.Context) bool { return errors.Is(context.Cause(life), errKilled) }

// kill has all daemons vanish with what they have, and keeps them away until the end.
func (c *crew) kill() (end func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills++
	for _, die := range c.lives {
		die(errKilled)
	}
	return func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kills--
		return nil
	}
}

// live begins a life of a daemon once none is killed any more; die ends it.
func (c *crew) live(ctx context.Context) (life context.Context, die func()) {
	for ctx.Err() == nil && c.down() {
		wait(ctx, 50*time.Millisecond)
	}
	life, end := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.serial.Add(1)
	c.lives[id] = end
	if c.kills > 0 {
		end(errKilled)
	}
	return life, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.lives, id)
		end(nil)
	}
}

func (c *crew) down() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kills > 0
}

// base begins the paths of queues over HTTP.
func (c *crew) base() string {
	if c.own {
		return ""
	}
	return "/pipeline"
}

// numbered is what stands for the file of an item that has a number.
const numbered = "item"

// piece is what an item is in the notes.
func (c *crew) piece(queue string, it takenItem) piece {
	if c.own {
		return piece{numbered, int(it.ID), queue}
	}
	return piece{it.Filename, it.Shard, queue}
}

// about is the path and the body by which a worker says something of what it has.
func (c *crew) about(t taking, move string, more map[string]any) (path string, body map[string]any) {
	body = map[string]any{"worker": t.worker}
	maps.Copy(body, more)
	if t.generation > 0 {
		body["generation"] = t.generation
	}
	if c.own {
		return fmt.Sprintf("/queues/%s/items/%d/%s", t.stage, t.shard, move), body
	}
	body["filename"], body["shard"] = t.file, t.shard
	return "/pipeline/stages/" + t.stage + "/" + move, body
}
