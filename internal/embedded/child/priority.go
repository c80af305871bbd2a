package child

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Threads are those of a process that have a name.
type Threads struct {
	Name  string
	Count int // how many there will be
}

// ease gives threads of a process a low priority as they come, and returns when all
// have it or ctx has ended.
func (t Threads) ease(ctx context.Context, pid int, log *slog.Logger) {
	if t.Count == 0 {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		eased, err := lowerPriority(pid, t.Name)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			log.Warn("threads that work in the background keep their priority", "error", err)
		}
		if err != nil || eased >= t.Count {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
