package pipeline

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
			b := newBatch()
			b.draft = newDraft(stagesOf(t).Names())
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

// TestBacklogMemory: a large batch is used again while there is a backlog, and
// given back without one. One that is not large is always used again.
func TestBacklogMemory(t *testing.T) {
	for _, tt := range []struct{ large, backlog, again bool }{
		{true, true, true}, {true, false, false}, {false, true, true}, {false, false, true},
	} {
		v := view{stages: stagesOf(t), free: make(chan *batch, batchesKept)}
		v.begin(true)
		used, draft := v.open, v.draft
		if tt.large {
			used.grow(5 * many)
		}
		v.free <- used
		v.begin(tt.backlog)
		if again := v.open == used; again != tt.again {
			t.Errorf("%+v: the batch is used again: %t", tt, again)
		}
		if again := v.draft == draft; again != tt.again {
			t.Errorf("%+v: the draft is used again: %t", tt, again)
		}
	}
}

// TestBacklogEnds: with the last batch of a backlog the memory of all is given
// back, even when nothing comes after it.
func TestBacklogEnds(t *testing.T) {
	v := view{stages: stagesOf(t), free: make(chan *batch, batchesKept)}
	for _, pending := range []uint64{3 * many, 2 * many, many} {
		v.begin(true)
		v.open.grow(5 * many)
		v.open.last.Pending = pending
		v.keep(v.open)
		if len(v.free) != 1 {
			t.Fatalf("with %d messages behind, %d batches are kept, want 1", pending, len(v.free))
		}
	}
	last := newBatch()
	last.draft = newDraft(v.stages.Names())
	last.grow(5 * many)
	v.keep(last)
	if len(v.free) != 0 {
		t.Errorf("at the end %d batches are kept", len(v.free))
	}
}
