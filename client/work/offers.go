package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// A worker that has fallen behind asks the server for offers beside messages: items
// that have no message yet. They cost less, and whoever starts one first has it.

// fewestOffers is how many items are worth a request for offers.
const fewestOffers = 10

const (
	offersRest    = time.Second // after a request for offers in vain
	offersUnknown = time.Minute // after a server did not know what offers are
)

// fetchNow takes up to n items that are there now, first those on the stream, which
// go before the others in the order of the queue. It returns how many there were.
func (w *worker) fetchNow(ctx context.Context, consumer jetstream.Consumer, n int) (int, error) {
	got, err := w.take(consumer.FetchNoWait(n))
	if err != nil || n-got < fewestOffers || time.Now().Before(w.noOffers) {
		return got, err
	}
	answer, err := ask(ctx, w.nc, stream.WorkMoveBatch{
		Worker: w.cfg.Worker, Stage: w.stage, Lease: w.cfg.Lease, Offers: n - got,
	})
	if err != nil {
		rest := offersRest
		if errors.Is(err, errRefused) {
			rest = offersUnknown
		}
		w.noOffers = time.Now().Add(rest)
		w.log.Debug("no offers", "stage", w.stage, "wait", rest, "error", err)
		return got, nil
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
