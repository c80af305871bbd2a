package main

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/slowtest"
)

func TestMain(m *testing.M) {
	serveSubprocess()
	m.Run()
}

// TestRot damages files of each part, by seeds that are always the same: nothing goes
// unnoticed, or is blamed on another store.
func TestRot(t *testing.T) {
	slowtest.Mark(t)
	for part, trials := range map[string]string{"nats": "16", "keys": "20", "spool": "20"} {
		t.Run(part, func(t *testing.T) {
			var out strings.Builder
			ok, err := run(context.Background(), []string{"-part", part, "-seed", "1", "-n", trials}, &out)
			if err != nil || !ok {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}

// TestJudge: a trial is what its evidence says.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		wrong string // the store in which something is missing
		said  string
		want  outcome
	}{
		{"", "", harmless},
		{"", "stream EVENTS: it was made anew", named},
		{"EVENTS", "stream EVENTS has lost 1 messages", named},
		{"EVENTS", "", silent},
		{"EVENTS", "the key store is damaged", misnamed},
		{"", "the key store is damaged", misnamed},
		{"SOURCES", "stream EVENTS has lost 1 messages", silent},
		{"EVENTS", "stream EVENTS_OTHER has lost 1 messages", misnamed},
	} {
		wrong, said := map[string]string{}, []string{}
		if c.wrong != "" {
			wrong[c.wrong] = "1 is missing"
		}
		if c.said != "" {
			said = append(said, c.said)
		}
		var r result
		if r.judge("EVENTS", wrong, said); r.outcome != c.want {
			t.Errorf("%q is missing, %q is said: %s, want %s", c.wrong, c.said, r.outcome, c.want)
		}
	}
}
