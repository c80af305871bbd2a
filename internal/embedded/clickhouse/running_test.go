package clickhouse

import (
	"fmt"
	"slices"
	"testing"
)

// TestKiller: statements that are cancelled while the engine is slow to cancel one
// are cancelled together, again and again until they have ended, and then no more.
func TestKiller(t *testing.T) {
	t.Parallel()
	calls := make(chan []string)
	k := &killer{kill: func(tags []string) { slices.Sort(tags); calls <- tags }}
	next := func(want ...string) {
		t.Helper()
		if got := <-calls; !slices.Equal(got, want) {
			t.Errorf("cancels %v, not %v", got, want)
		}
	}
	for range 3 {
		k.add("/*q00*/")
		var all []string
		for i := 1; i <= 50; i++ {
			all = append(all, fmt.Sprintf("/*q%02d*/", i))
			k.add(all[i-1])
		}
		first := <-calls
		if !slices.Contains(first, "/*q00*/") {
			t.Errorf("begins with %v", first)
		}
		k.remove("/*q00*/")
		for again := <-calls; !slices.Equal(again, all); again = <-calls {
			if again[0] != "/*q00*/" { // read before it was removed
				t.Fatalf("cancels %v, not %v", again, all)
			}
		}
		for _, tag := range all[1:] {
			k.remove(tag)
		}
		for last := <-calls; len(last) > 1; last = <-calls {
		}
		next(all[0])
		k.remove(all[0])
		for ended := false; !ended; {
			select {
			case <-calls: // what it had read before
			default:
				k.mu.Lock()
				ended = k.more == nil
				k.mu.Unlock()
			}
		}
	}
}
