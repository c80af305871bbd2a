// Package slowtest keeps short runs of tests short: it leaves long tests out, and has others do a part.
package slowtest

import (
	"math/rand/v2"
	"testing"
)

// Mark skips a test in a short run. A test that takes more than some five seconds calls it first, so that "make test" is
// short. "make test-all" runs it.
func Mark(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
}

// N returns how much a test does: all, or a part in a short run.
func N(all, part int) int {
	if testing.Short() {
		return part
	}
	return all
}

// Sample returns the cases of a test: all, or n of them in a short run, chosen at random, so that all are tried in the
// course of several runs. It may change the order of cases.
func Sample[T any](cases []T, n int) []T {
	if testing.Short() && n < len(cases) {
		rand.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		return cases[:n]
	}
	return cases
}
