package batches

import (
	"math"
	"testing"
)

// TestInteractions computes the stated formulas by hand.
func TestInteractions(t *testing.T) {
	none := math.NaN() // not known
	for _, c := range []struct {
		item                     string
		engagement, rate, impact float64
	}{
		{`{"interaction":{"views":1000,"likes":100,"comments_count":10,"shares":5,"saves":1}}`, 137, .137, 12.5 * math.Log10(2371)},
		{`{"playCount":99,"diggCount":0,"commentCount":0,"shareCount":0}`, 0, 0, 25},          // as TikTok has it
		{`{"views":"99","likes":"7","comment_total":""}`, 7, 7. / 99, 12.5 * math.Log10(170)}, // as rows of YouTube have it
		{`{"meta":{"views":9}}`, none, none, 12.5},
		{`{"likes":9,"views":0}`, 9, none, 12.5 * math.Log10(91)},
		{`{"views":1e9,"likes":1e9}`, 1e9, 1, 100},
		{`{"views":-1,"likes":null,"shares":"many","comments":[1,2]}`, none, none, none},
		{`{"views":1e308,"likes":1e308,"saves":1e308}`, none, none, 100},
		{`{"views":5e-324,"likes":1e308}`, 1e308, none, 100},
		{`{"interaction":7}`, none, none, none},
		{`[1]`, none, none, none},
		{`{`, none, none, none},
		{``, none, none, none},
	} {
		i := ReadInteractions([]byte(c.item))
		for _, got := range []struct {
			name string
			of   func() (float64, bool)
			want float64
		}{{"engagement", i.Engagement, c.engagement}, {"rate", i.EngagementRate, c.rate}, {"impact", i.Impact, c.impact}} {
			n, known := got.of()
			if known == math.IsNaN(got.want) || known && math.Abs(n-got.want) > 1e-9 {
				t.Errorf("%s of %s: %v, %v, want %v", got.name, c.item, n, known, got.want)
			}
		}
	}
}
