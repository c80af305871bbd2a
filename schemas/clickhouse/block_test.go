package clickhouse

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/ClickHouse/ch-go/proto"

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
			Meta: event.Metadata{
				QualityScore: math.NaN(), ModelVersion: v, ContentType: v, Channel: v,
				Topics: [][]byte{v},
			},
		}, event.Identity{})
	}
	for _, i := range []int{0, 1, 1<<16 - 1, 1 << 16, rows - 1} {
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

// TestTexts: a column of texts is sent as ch-go sends its own, alone and in a
// vector, and has its rows, also when it was used before.
func TestTexts(t *testing.T) {
	x := []byte("x")
	values := [][]byte{nil, []byte("a"), bytes.Repeat(x, 127), bytes.Repeat(x, 128), nil, []byte("z")}
	var c texts
	c.append([]byte("of another insert"))
	c.Reset()
	c.grow(len(values), 10)
	var plain proto.ColStr
	for _, v := range values {
		c.append(v)
		plain.AppendBytes(v)
	}
	if c.Rows() != len(values) {
		t.Errorf("%d rows, want %d", c.Rows(), len(values))
	}
	for i, v := range values {
		if !bytes.Equal(c.row(i), v) {
			t.Errorf("row %d is %q, want %q", i, c.row(i), v)
		}
	}
	var want, got proto.Buffer
	plain.EncodeColumn(&want)
	c.EncodeColumn(&got)
	var vector bytes.Buffer
	w := proto.NewWriter(&vector, new(proto.Buffer))
	c.WriteColumn(w)
	if _, err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Buf, want.Buf) || !bytes.Equal(vector.Bytes(), want.Buf) {
		t.Errorf("sent as %q and %q, want %q", got.Buf, vector.Bytes(), want.Buf)
	}
}
