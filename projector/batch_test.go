package projector

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// TestDeltasFitMessages: however many sources a batch has and however long their
// names, its announcement is taken by a NATS server as it is by default, and
// tells all events in their order.
func TestDeltasFitMessages(t *testing.T) {
	const payload = 1 << 20 // bytes that a server takes by default
	for _, tt := range []struct{ events, sources, name, parts int }{
		{0, 0, 0, 1},
		{0, 32_000, 256, 1}, // all of them repeats
		{32_000, 300, 256, 1},
		{32_000, 32_000, 100, 5},
		{32_000, 32_000, 256, 10},
		{120_000, 300, 100, 3},
		{120_000, 32_000, 256, 38},
	} {
		t.Run(fmt.Sprintf("%d of %d by %d", tt.events, tt.sources, tt.name), func(t *testing.T) {
			b := newBatch(stagesOf(t).Names())
			b.Group.ID, b.From, b.To = 3, 10, 11+uint64(tt.events)
			for i := range tt.sources {
				b.groups.place(fmt.Appendf(nil, "%s%05d", strings.Repeat("s", tt.name-5), i))
			}
			for i := range tt.events {
				b.groups.entries = append(b.groups.entries, contract.Entry{
					Quarter: uint32(900 * i), Stage: uint16(i % 5), Source: uint32(i * 7 % tt.sources),
					Article: uint64(i),
				})
			}
			want := slices.Clone(b.groups.entries)
			deltas := b.deltas()
			if len(deltas) != tt.parts {
				t.Errorf("%d parts, want %d", len(deltas), tt.parts)
			}
			var told []contract.Entry
			for i := range deltas {
				data := deltas[i].AppendBinary(nil)
				if len(data) > payload {
					t.Errorf("part %d of %d has %d bytes", i, len(deltas), len(data))
				}
				told = append(told, read(t, b, data, i, len(deltas))...)
			}
			if !slices.Equal(told, want) || !slices.Equal(b.groups.entries, want) {
				t.Error("what is told is not what the batch has, or it has other events now")
			}
		})
	}
}

// read decodes a part of a batch's announcement and gives its sources the places
// that they have in the batch.
func read(t *testing.T, b *batch, data []byte, part, parts int) []contract.Entry {
	t.Helper()
	var d contract.Delta
	if err := d.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if d.Group != b.Group.ID || d.From != b.From || d.To != b.To || int(d.Part) != part || int(d.Parts) != parts {
		t.Errorf("part %d of %d of (%d, %d] says %d, %d, (%d, %d]", part, parts, b.From, b.To, d.Part,
			d.Parts, d.From, d.To)
	}
	for i := range d.Entries {
		d.Entries[i].Source = b.groups.places[d.Sources[d.Entries[i].Source]]
	}
	return d.Entries
}

// TestBacklogMemory: a batch that has grown for a backlog is used again while there
// is one, and given back when there has been none for a while. One that has not
// grown is always used again.
func TestBacklogMemory(t *testing.T) {
	for _, tt := range []struct {
		grown bool
		small int
		again bool
	}{{true, 0, true}, {true, calm - 1, true}, {true, calm, false}, {false, calm, true}} {
		v := view{stages: stagesOf(t), free: make(chan *batch, 1), small: tt.small}
		v.begin()
		used := v.open
		if tt.grown {
			used.grow(2 * many)
		}
		v.free <- used
		v.begin()
		if again := v.open == used; again != tt.again {
			t.Errorf("%+v: used again is %t", tt, again)
		}
	}
}
