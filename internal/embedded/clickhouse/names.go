package clickhouse

import (
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// engineDatabase is the one in which every session of the engine begins, and
// without which the engine refuses every new one.
const engineDatabase = "default"

// The engine knows a single user and gives every query an id of its own. So what
// the functions of these names return is put in their places.
var (
	userFunctions = strings.Fields("currentuser user current_user authenticateduser authuser")
	idFunctions   = strings.Fields("queryid query_id initialqueryid initial_query_id currentqueryid current_query_id")
)

// clientID is the id that the tag of a running query holds, or else the engine's.
const clientID = `coalesce(nullIf(decodeURLComponent(extract(query, '(?:^|\\n)/[*]q[0-9]+ ([^ *]+)[*]/')), ''), ` +
	`query_id)`

// named is the text of q with the names that login and client have in it.
func (q query) named(login string) string {
	literals := map[string]string{}
	if login != engineUser {
		for _, f := range userFunctions {
			literals[f] = quote(login)
		}
	}
	if q.id != "" {
		for _, f := range idFunctions {
			literals[f] = quote(q.id)
		}
	}
	text := statement.ReplaceCalls(q.Text, literals)
	if q.Verb == "KILL" {
		text = statement.ReplaceName(text, "query_id", clientID)
	}
	return text
}

// engineUser is the user that the engine knows.
const engineUser = "default"

// plainType undoes the line breaks and the indentation of types as the engine
// prints them.
func plainType(pretty string) string {
	if !strings.Contains(pretty, "\n") {
		return pretty
	}
	var b strings.Builder
	for i := 0; i < len(pretty); i++ {
		switch c := pretty[i]; c {
		case '\'', '`':
			start := i
			for i++; i < len(pretty) && pretty[i] != c; i++ {
				if pretty[i] == '\\' {
					i++
				}
			}
			b.WriteString(pretty[start:min(i+1, len(pretty))])
		case '\n':
			for i+1 < len(pretty) && pretty[i+1] == ' ' {
				i++
			}
			if s := b.String(); strings.HasSuffix(s, ",") {
				b.WriteByte(' ')
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
