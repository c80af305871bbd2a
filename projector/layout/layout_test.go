package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestEverySubjectHasOneGroup: whatever is published on the stream is read
// and owned by exactly one group.
func TestEverySubjectHasOneGroup(t *testing.T) {
	subjects := []string{"events.crawled.zz", "events.crawled.0", "events.crawled.000", "events.crawled.FF", "events..00", "events.x.é"}
	for slot := range stream.Slots {
		subjects = append(subjects, fmt.Sprintf("events.crawled.%02x", slot))
	}
	for _, of := range []uint32{1, 2, 3, 4, 7, 16, 256} {
		for _, subject := range subjects {
			owners := 0
			for n := range of {
				g := Group{n, of}
				if !g.Owns([]byte(subject)) {
					continue
				}
				owners++
				suffix := subject[strings.LastIndex(subject, "."):]
				if f := g.Filters(); f != nil && !slices.Contains(f, "events.*"+suffix) {
					t.Errorf("group %d of %d owns %s and does not read it", n, of, subject)
				}
			}
			if owners != 1 {
				t.Errorf("%d of %d groups own %s", owners, of, subject)
			}
		}
	}
}

func TestAgree(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	for i, c := range []struct {
		folded   bool // without a layout, as before there were any
		wants    []uint32
		want     uint32
		disagree uint32
	}{
		{wants: []uint32{0, 0, 1}, want: 1, disagree: 2},
		{wants: []uint32{4, 0, 4}, want: 4, disagree: 1},
		{folded: true, wants: []uint32{0}, want: 1, disagree: 3},
	} {
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: fmt.Sprint("layout", i)})
		if err != nil {
			t.Fatal(err)
		}
		if c.folded {
			if _, err := kv.PutString(t.Context(), "funnel.0", "{}"); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range c.wants {
			if got, err := Agree(t.Context(), kv, want); got != c.want || err != nil {
				t.Errorf("case %d: agreed on %d, %v, want %d", i, got, err, c.want)
			}
		}
		if _, err := Agree(t.Context(), kv, c.disagree); !errors.Is(err, ErrOther) {
			t.Errorf("case %d: %d slot groups are %v", i, c.disagree, err)
		}
	}
}
