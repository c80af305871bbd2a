package clickhouse

import (
	"strings"
	"testing"
)

// TestProgressFirst: however a result is cut into parts, its first report is in front
// and nothing else changes its place; results without one near their beginning are
// not held for long.
func TestProgressFirst(t *testing.T) {
	rows := strings.Repeat(`{"row":{"progress":"\\n{"}}`+"\n", holdBack/10)
	const meta, row, one, two = "{\"meta\":1}\n", "{\"row\":1}\n", "{\"progress\":1}\n", "{\"progress\":2}\n"
	for name, c := range map[string]struct{ text, want string }{
		"behind":  {meta + row + one + row + two, one + meta + row + row + two},
		"front":   {one + meta + two, one + meta + two},
		"none":    {meta + "{\"row\":1}", meta + "{\"row\":1}"},
		"nothing": {"", ""},
		"late":    {rows + one, rows + one},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			var out strings.Builder
			p := &progressFirst{out: &out}
			for rest := c.text; rest != ""; {
				n := min(size, len(rest))
				if _, err := p.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if name == "late" && size < holdBack && out.Len() == 0 {
				t.Errorf("%s: all of %d bytes are held", name, len(c.text))
			}
			if err := p.flush(); err != nil || out.String() != c.want {
				t.Errorf("%s in parts of %d: %.300q, %v", name, size, out.String(), err)
			}
		}
	}
}
