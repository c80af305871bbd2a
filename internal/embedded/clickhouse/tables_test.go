package clickhouse

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// refusing is a session that notes statements, and fails the one that holds a text.
type refusing struct {
	session
	text string
	err  error
	ran  []string
}

func (r *refusing) run(_ context.Context, q query, _ emitter) error {
	r.ran = append(r.ran, q.Text)
	if strings.Contains(q.Text, r.text) {
		return r.err
	}
	return nil
}

// TestAttachFails: when a table cannot be made, those before it are dropped, unless
// the session cannot be used any more.
func TestAttachFails(t *testing.T) {
	const create, drop = "CREATE TEMPORARY TABLE `%` (n UInt8) ENGINE = Memory", "DROP TEMPORARY TABLE `a`"
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"refused": {errReadOnly(), []string{
			strings.ReplaceAll(create, "%", "a"), strings.ReplaceAll(create, "%", "b"),
			drop,
		}},
		"stuck": {
			&stuckError{exception(codeTimeout, "TIMEOUT_EXCEEDED", "stuck")},
			[]string{strings.ReplaceAll(create, "%", "a"), strings.ReplaceAll(create, "%", "b")},
		},
	} {
		sess := &refusing{text: "`b`", err: c.err}
		tables := externals{
			{name: "a", structure: "n UInt8", rows: &spool{}},
			{name: "b", structure: "n UInt8", rows: &spool{}},
		}
		if _, err := tables.attach(t.Context(), sess); err != c.err {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(sess.ran, c.want) {
			t.Errorf("%s: %q", name, sess.ran)
		}
	}
}
