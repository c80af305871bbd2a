package live

import "sync"

// task is something that is done in a goroutine whenever there is a reason, and
// once more when there is one meanwhile. It is safe for concurrent use.
type task struct {
	do func()

	mu      sync.Mutex
	due     bool
	running bool
	ended   bool
	runs    sync.WaitGroup
}

// start has the task done.
func (t *task) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = true
	if t.running || t.ended {
		return
	}
	t.running = true
	t.runs.Go(func() {
		for t.next() {
			t.do()
		}
	})
}

// next tells whether the task is to be done once more.
func (t *task) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = t.due && !t.ended
	t.due = false
	return t.running
}

// end waits until the task is not done any more.
func (t *task) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.runs.Wait()
}
