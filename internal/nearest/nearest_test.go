package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"period", "from", "to", "tz", "source", "exclude_reclassifications"}
	for unknown, want := range map[string]struct {
		name     string
		distance int
	}{
		"perod":                     {"period", 1},
		"Period":                    {"period", 0},
		"exclude-Reclassifications": {"exclude_reclassifications", 0},
		"sources":                   {"source", 1},
		"timezone":                  {"to", 6},
		strings.Repeat("x", 60_000): {"exclude_reclassifications", 63},
	} {
		name, distance := Name(unknown, known)
		if name != want.name || distance != want.distance {
			t.Errorf("%.20s: %s at %d, want %+v", unknown, name, distance, want)
		}
	}
	if name, _ := Name("x", nil); name != "" {
		t.Errorf("of no names, %q is the nearest", name)
	}
}
