package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/slots"
)

// TestCut: an insert into a server that hangs does not end with its context, but when the
// connections are cut.
func TestCut(t *testing.T) {
	direct := engine.Database(t)
	w := newWay(t, direct.Addr[0]) // which keeps the end of the first insert
	over := *direct
	over.Addr = []string{w.addr()}
	s := open(t, &over)
	batch := store.Insert{Group: slots.Group{Of: 1}, To: 100}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.InsertEvents(ctx, batch, events(t, batch)) }()
	p := w.await(t)
	cancel()
	s.Cut()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("an insert without an answer succeeds")
		}
	case <-time.After(limit):
		t.Fatal("the insert still waits")
	}
	p.arrive(t)
}
