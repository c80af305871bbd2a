package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/schemas/stream"
)

// A worker that has fallen behind asks the server for offers beside messages: items
// that have no message yet. They cost less, and whoever starts one first has it.

const (
	offersRest    = time.Second // after a request for offers in vain
	offersUnknown = time.Minute // after a server did not know what offers are
)

// takeOffers takes up to n items that were offered, and returns how many there were.
func (w *worker) takeOffers(ctx context.Context, n int) (got int, err error) {
	if time.Now().Before(w.noOffers) {
		return 0, nil
	}
	answer, err := ask(ctx, w.nc, stream.WorkMoveBatch{
		Worker: w.cfg.Worker, Stage: w.stage, Lease: w.lease(), Offers: n,
	})
	if err != nil {
		rest := offersRest
		if errors.Is(err, errRefused) {
			rest = offersUnknown
		}
		w.noOffers = time.Now().Add(rest)
		w.log.Debug("no offers", "stage", w.stage, "wait", rest, "error", err)
		return 0, nil
	}
	for _, body := range answer.Items {
		t, err := parse(body)
		if err != nil {
			return got, fmt.Errorf("offers: %w", err)
		}
		w.start(t)
		got++
	}
	return got, nil
}
