package backup

import "testing"

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"2.15.2", "2.15.2", false},
		{"2.15.0", "2.15.2", false},
		{"2.11.9", "2.15.2", true},
		{"2.9.1", "2.10.0", true},
		{"2.16.0", "2.15.2", false},
		{"3.0.0-beta", "2.15.2", false},
		{"1.99", "2.0", true},
		{"", "2.15.2", false},
		{"2.15.2", "unknown", false},
	} {
		if got := older(c.a, c.b); got != c.want {
			t.Errorf("%q is older than %q: %v", c.a, c.b, got)
		}
	}
}
