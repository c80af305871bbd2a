package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// without skips a test for want of what this machine has not, and fails where
// continuous integration runs it.
func without(t *testing.T, why error) {
	t.Helper()
	if inCI() {
		t.Fatal(why)
	}
	t.Skip(why)
}

// TestFit: a kind that is named acts or is an error, and no run is without any
// by mistake.
func TestFit(t *testing.T) {
	for _, bad := range []string{
		"-faults=", "-faults=,", "-soak -faults=kill-nats",
		"-faults=kill-node", "-faults=rolling,kill-nats -nodes=3", "-faults=rebalance -groups=1",
		"-faults=kill-unacked", "-faults=kill-query -peer=plain",
	} {
		cfg, err := parse(strings.Fields(bad), io.Discard)
		if err == nil {
			err = cfg.fit(io.Discard)
		}
		if err == nil {
			t.Errorf("%s is accepted: %v", bad, cfg.kinds)
		}
	}
	for flags, want := range map[string][]kind{
		"-faults=none":                     nil,
		"-faults=kill-node -nodes=3":       {killNode},
		"-faults=rebalance -groups=2":      {rebalance},
		"-faults=kill-unacked -peer=plain": {killUnacked},
	} {
		cfg, err := parse(strings.Fields(flags), io.Discard)
		if err == nil {
			err = cfg.fit(io.Discard)
		}
		if err != nil || !slices.Equal(cfg.kinds, want) {
			t.Errorf("%s: %v, %v", flags, cfg.kinds, err)
		}
	}
	cfg, err := parse([]string{"-groups=1"}, io.Discard)
	must(t, errors.Join(err, cfg.leaveOutUnfit()))
	if slices.Contains(cfg.kinds, killNode) || slices.Contains(cfg.kinds, rebalance) ||
		!slices.Contains(cfg.kinds, killNATS) {
		t.Errorf("of all kinds: %v", cfg.kinds)
	}
}

// TestSpare: what the machine is not for is left out where nobody relies on it.
func TestSpare(t *testing.T) {
	for _, tc := range []struct {
		ci    string
		named bool
		kinds []kind
		fails bool
	}{
		{"", false, []kind{killNATS, unplugNATS}, false},
		{"", true, []kind{killNATS, unplugNATS}, true},
		{"true", false, []kind{killNATS, unplugNATS}, true},
		{"true", true, []kind{killNATS}, false},
	} {
		t.Setenv("CI", tc.ci)
		cfg := config{kinds: tc.kinds, named: tc.named}
		var out strings.Builder
		err := cfg.spare(needsDisk, errNoDisks, &out)
		if (err != nil) != tc.fails || !slices.Equal(cfg.kinds, []kind{killNATS}) {
			t.Errorf("%+v: %v, %v", tc, cfg.kinds, err)
		}
		if told := strings.Contains(out.String(), string(unplugNATS)); told == (tc.fails || len(tc.kinds) == 1) {
			t.Errorf("%+v: %q", tc, out.String())
		}
	}
}

// TestOverlap: faults overlap in the second round, and in the first if asked.
func TestOverlap(t *testing.T) {
	kinds := slices.Repeat([]kind{killLeader, cutNATS}, 20)
	for overlap, want := range map[bool][2]bool{false: {false, true}, true: {true, true}} {
		p, got := newPlan(3, kinds), [2]bool{}
		p.overlap = overlap
		for i := range 2 * len(kinds) {
			joined := p.next().joined
			got[i/len(kinds)] = got[i/len(kinds)] || joined
		}
		if got != want {
			t.Errorf("overlap %v: faults overlap in the first round and the second: %v", overlap, got)
		}
	}
}
