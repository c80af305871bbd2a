package clickhouse

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// TestQueryLogBound: events for which the engine has no time are lost, and take no
// more memory.
func TestQueryLogBound(t *testing.T) {
	for name, text := range map[string]string{"many": "SELECT 1", "long": strings.Repeat("x", 1<<20)} {
		l := &queryLog{}
		l.storing.Lock() // as while the engine takes others
		for range 5 * logWaiting {
			q := asked{from: origin{who: reader}, Statement: statement.Statement{Verb: "SELECT", Sent: text}}
			l.begin(q, nil).end(nil)
		}
		if n := len(l.waiting); n > 4*logWaiting || l.size > 4*logBytes+logText {
			t.Errorf("%s: %d events of %d bytes wait", name, n, l.size)
		}
		if n := len(l.waiting); n == 0 {
			t.Errorf("%s: no event waits", name)
		}
	}
}
