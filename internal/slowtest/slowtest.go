// Package slowtest leaves long tests out of short runs.
package slowtest

import "testing"

// Mark skips a test in a short run. A test that takes more than some five seconds calls it first, so that "make test" is
// short. "make test-all" runs it.
func Mark(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
}
