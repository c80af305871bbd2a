package clickhouse

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/millrace-io/millrace/schemas/event"
)

// TestManyValues: a block has more values of a column than 16 bits can number, and
// each row has its own.
func TestManyValues(t *testing.T) {
	const rows = 1<<16 + 10
	b := NewEventBlock()
	value := func(i int) []byte { return fmt.Appendf(nil, "value-%d", i) }
	for i := range rows {
		v := value(i)
		b.Append(uint64(i), 0, &event.Record{
			SourceName: v, ServiceName: v, Domain: v,
			Meta: event.Metadata{QualityScore: math.NaN(), ModelVersion: v, ContentType: v, Channel: v, Topics: [][]byte{v}},
		}, event.Identity{})
	}
	for i := range rows {
		for _, c := range []*lowCard{&b.source, &b.service, &b.domain, &b.modelVersion, &b.contentType, &b.channel} {
			if got := c.row(i); !bytes.Equal(got, value(i)) {
				t.Fatalf("row %d has %s", i, got)
			}
		}
		if got := b.topics.row(i); len(got) != 1 || !bytes.Equal(got[0], value(i)) {
			t.Fatalf("row %d has the topics %s", i, got)
		}
	}
}
