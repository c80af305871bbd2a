package queue

import (
	"testing"
	"time"
)

// TestAgesByPostgresClock: how long an item waits does not depend on how far the clocks of
// this process and of Postgres are apart.
func TestAgesByPostgresClock(t *testing.T) {
	const q, waits = ID(1), 5 * time.Second
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		at := time.Now().Add(ahead)
		known := knownAges{since: map[ID]time.Time{q: at.Add(-waits)}, at: at, read: time.Now()}
		since, age := known.of(q)
		if !since.Equal(at.Add(-waits)) || age < waits || age > waits+time.Minute {
			t.Errorf("Postgres's clock is %v ahead: an item of %v is there since %v, for %v", ahead, waits, since, age)
		}
		if since, age := known.of(q + 1); !since.IsZero() || age != 0 {
			t.Errorf("an empty queue: since %v, for %v", since, age)
		}
	}
	at := time.Now()
	future := knownAges{since: map[ID]time.Time{q: at.Add(time.Minute)}, at: at, read: at}
	if _, age := future.of(q); age != 0 {
		t.Errorf("an item of the future is there for %v", age)
	}
}
