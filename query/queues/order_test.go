package queues

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/query/live"
)

// TestFeedOrder: transitions come in the numeric order of their transactions, each
// once, also where a transaction id has more digits than the one before. A reader
// that comes again at any event gets the rest.
func TestFeedOrder(t *testing.T) {
	s := trackingtest.New(t, &engine)
	store := s.UserQueues("mail")
	s.Serve(auth.New(auth.Config{}), New(live.TransitionsConfig{Poll: 5 * time.Millisecond}, store, nobody{}))
	items := writtenBy(t, store, []string{"2", "7", "10", "12", "95", "100", "103", "500"})

	all := read(t, s, queue.Place{}.String(), len(items))
	for from := range all {
		last := queue.Place{}.String()
		if from > 0 {
			last = all[from-1].ID
		}
		if got := itemsOf(read(t, s, last, len(items)-from)); !slices.Equal(got, items[from:]) {
			t.Errorf("behind %s: the items %v, want %v", last, got, items[from:])
		}
	}
	for limit := 1; limit <= len(items); limit++ {
		if got := pages(t, store.Queues(), limit); !slices.Equal(got, items) {
			t.Errorf("in pages of %d: the items %v, want %v", limit, got, items)
		}
	}
}

// writtenBy adds an item for each transaction id, and has its transition be of
// that transaction.
func writtenBy(t *testing.T, store *userqueue.Store, transactions []string) (items []int64) {
	t.Helper()
	for _, tx := range transactions {
		added, err := store.Enqueue(t.Context(), "mail", make([]userqueue.EnqueueItem, 1))
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, added[0].ID)
		if _, err := store.Queues().Pool().Exec(t.Context(),
			"UPDATE millrace.history SET tx = $2::text::xid8 WHERE item_id = $1", added[0].ID, tx); err != nil {
			t.Fatal(err)
		}
	}
	return items
}

func itemsOf(all []UserQueueTransition) (items []int64) {
	for _, v := range all {
		items = append(items, v.Item)
	}
	return items
}

// pages follows the whole history, some transitions at a time.
func pages(t *testing.T, store *queue.Store, limit int) (items []int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var at queue.Place
	for {
		page, err := store.Follow(ctx, at, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page {
			at = v.Place
			items = append(items, v.Item)
		}
		if len(page) < limit {
			return items
		}
	}
}
