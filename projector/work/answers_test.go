package work

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestPlainReasons: whatever daemons give as a reason, a column of Postgres can hold
// what is kept of it. One that it refused would come again and again (invariant 6
// of package work).
func TestPlainReasons(t *testing.T) {
	for _, said := range []string{"no\x00such", "not \xff UTF-8", strings.Repeat("long", item.MaxError)} {
		a := answer{WorkAnswer: stream.WorkAnswer{Kind: stream.AnswerTerm, Reason: said}}
		if _, c, _ := a.outcome(); c.Error == "" || c.Error != item.CutError(said) {
			t.Errorf("of %.20q is kept %.20q, %d bytes", said, c.Error, len(c.Error))
		}
	}
}
