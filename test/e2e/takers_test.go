package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// TestTwoTakers goes the way of the specification at every stage, with two daemons
// at once that give no name: each reads the queue, starts what it finds, and works
// what it was given. No item is given to both, and none is left.
func TestTwoTakers(t *testing.T) {
	t.Parallel()
	const files, shards = 3, 4
	s := up(t)
	for f := range files {
		name := fmt.Sprintf("2025010100000%d", f)
		command[struct{}](s, "/files/register",
			fmt.Sprintf(`{"filename":"%s.event-ingest.txt","shards":[0,1,2,3,3]}`, name))
		command[struct{}](s, "/stages/event-ingest/done", fmt.Sprintf(`{"filename":%q}`, name))
	}
	for _, stage := range []string{"shard-splitter", "shard-worker", "mysql-sender"} {
		w := &takers{t: t, s: s, stage: stage, given: map[string]int{}, done: map[string]bool{}}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { w.work(files * shards) })
		}
		all.Wait()
		again := 0 // the item that fails once, at the last stage
		if stage == "mysql-sender" {
			again = 1
		}
		given := 0
		for _, n := range w.given {
			given += n
		}
		if len(w.given) != files*shards || given != files*shards+again {
			t.Errorf("%s: %v are given, want each of %d once, and %d again after a retry", stage, w.given,
				files*shards, again)
		}
	}
	sum := get[struct {
		Total   int                       `json:"total"`
		ByStage map[string]map[string]int `json:"by_stage"`
	}](s, shardsAPI+"/metrics/summary", "")
	if sum.Total != files*shards || sum.ByStage["mysql_sender"]["done"] != files*shards {
		t.Errorf("%+v", sum)
	}
}

// takers are two daemons of a stage.
type takers struct {
	t     *testing.T
	s     *server
	stage string

	mu     sync.Mutex
	given  map[string]int // starts that were answered with 200
	done   map[string]bool
	failed bool // one has, once
}

// work takes from the queue until so many items are done.
func (w *takers) work(all int) {
	for !w.t.Failed() && w.t.Context().Err() == nil && w.finished() < all {
		queue := get[takenItems](w.s, shardsAPI+"/queues/"+w.stage, "limit=5")
		for _, it := range queue.Items {
			w.take(fmt.Sprintf(`{"filename":%q,"shard":%d}`, it.Filename, it.Shard))
		}
	}
}

func (w *takers) finished() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.done)
}

// take starts an item and works it, unless the other daemon has it.
func (w *takers) take(item string) {
	status, _, text := w.s.post(shardsAPI+"/stages/"+w.stage+"/start", "application/json", item)
	if status == http.StatusConflict {
		return
	}
	if status != http.StatusOK {
		w.t.Errorf("start of %s: %d %s", item, status, text)
		return
	}
	w.mu.Lock()
	w.given[item]++
	fail := w.stage == "mysql-sender" && !w.failed
	w.failed = w.failed || fail
	w.mu.Unlock()
	if fail {
		command[moved](w.s, "/stages/"+w.stage+"/fail", item)
		command[moved](w.s, "/stages/"+w.stage+"/retry", item)
		return
	}
	command[moved](w.s, "/stages/"+w.stage+"/done", item)
	w.mu.Lock()
	w.done[item] = true
	w.mu.Unlock()
}
