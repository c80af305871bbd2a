package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/axiomhq/hyperloglog"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// compareFunnel holds every row of the funnel table, those of all slot groups
// together, to the recount, a width and a stage at a time.
func (v *verdict) compareFunnel(ctx context.Context, db database, t truth) error {
	found, read := map[funnel.Key]bool{}, 0
	for _, width := range funnel.Widths {
		for _, stage := range stageNames() {
			rows, err := db.query(ctx, fmt.Sprintf(
				"SELECT width, toUnixTimestamp(bucket), source, stage, events, hex(article_set) FROM funnel FINAL "+
					"WHERE width = %d AND stage = '%s'", width, stage))
			if err != nil {
				return err
			}
			read += len(rows)
			for key, got := range v.addUp(rows) {
				found[key] = true
				if want := t.bucket[key]; want == nil {
					v.wrong("funnel: a row too many: %+v", key)
				} else if text := got.differs(want); text != "" {
					v.wrong("funnel: %+v has %s", key, text)
				}
			}
		}
	}
	for key := range t.bucket {
		if !found[key] {
			v.wrong("funnel: %+v is missing", key)
		}
	}
	rows, err := db.query(ctx, "SELECT count() FROM funnel FINAL")
	if err == nil && rows[0][0] != strconv.Itoa(read) {
		v.wrong("funnel: %s rows, of which %d have a known width and stage", rows[0][0], read)
	}
	return err
}

// addUp adds up the rows of each key.
func (v *verdict) addUp(rows [][]string) map[funnel.Key]*sum {
	sums := map[funnel.Key]*sum{}
	for _, r := range rows {
		if err := addRow(sums, r); err != nil {
			v.wrong("funnel: %q: %v", r[:5], err)
		}
	}
	return sums
}

// sum is what the rows of a key add up to. Sets are read here by their format
// alone: the first 64 bits of hashes, or the registers of a sketch of them.
type sum struct {
	events    int
	ids       map[uint64]struct{} // of rows that list them
	registers *hyperloglog.Sketch // of the others, dense; nil: there are none
}

func addRow(sums map[funnel.Key]*sum, r []string) error {
	width, err1 := strconv.ParseUint(r[0], 10, 32)
	bucket, err2 := strconv.ParseUint(r[1], 10, 32)
	events, err3 := strconv.Atoi(r[4])
	data, err4 := hex.DecodeString(r[5])
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	key := funnel.Key{Width: funnel.Width(width), Bucket: uint32(bucket), Source: r[2], Stage: r[3]}
	if sums[key] == nil {
		sums[key] = &sum{ids: map[uint64]struct{}{}}
	}
	sums[key].events += events
	return sums[key].add(data)
}

// Kinds of sets, their first byte.
const (
	listedSet   = 1
	sketchedSet = 2
)

func (s *sum) add(data []byte) error {
	switch {
	case len(data) > 0 && data[0] == listedSet && len(data)%8 == 1:
		for rest := data[1:]; len(rest) > 0; rest = rest[8:] {
			s.ids[binary.LittleEndian.Uint64(rest)] = struct{}{}
		}
		return nil
	case len(data) > 0 && data[0] == sketchedSet:
		sketch := new(hyperloglog.Sketch)
		if err := sketch.UnmarshalBinary(data[1:]); err != nil {
			return err
		}
		if s.registers == nil {
			s.registers = hyperloglog.NewNoSparse()
		}
		return s.registers.Merge(sketch)
	}
	return fmt.Errorf("%d bytes are no set of articles", len(data))
}

// mostListed is up to how many articles a set lists them.
const mostListed = 64

// differs says how the rows differ from what they have to be.
func (s *sum) differs(want *tally) string {
	switch {
	case s.events != want.events:
		return fmt.Sprintf("%d events, want %d", s.events, want.events)
	case s.registers == nil && !maps.Equal(s.ids, want.articles):
		return fmt.Sprintf("%d articles, want %d, or others", len(s.ids), len(want.articles))
	case s.registers == nil:
		return ""
	case len(want.articles) <= mostListed:
		return fmt.Sprintf("a sketch of as few as %d articles", len(want.articles))
	}
	insert(s.registers, s.ids)
	right := hyperloglog.NewNoSparse()
	insert(right, want.articles)
	if !bytes.Equal(registers(s.registers), registers(right)) {
		return fmt.Sprintf("a sketch of about %d articles, want one of %d, about %d, or of others",
			s.registers.Estimate(), len(want.articles), right.Estimate())
	}
	return ""
}

func insert(sketch *hyperloglog.Sketch, ids map[uint64]struct{}) {
	for id := range ids {
		sketch.InsertHash(id)
	}
}

// registers are those of a dense sketch, which its values alone decide.
func registers(dense *hyperloglog.Sketch) []byte {
	data, err := dense.MarshalBinary()
	if err != nil {
		panic(err) // only of a sketch without a precision
	}
	return data
}

// estimates are what a sketch of articles may say: their number while they are
// listed, and beyond what its sparse form or its dense one estimates. Which form
// it has depends on what it was merged from; what each says does not.
func (t *tally) estimates() []int {
	if len(t.articles) <= mostListed {
		return []int{len(t.articles)}
	}
	sparse, dense := hyperloglog.New14(), hyperloglog.NewNoSparse()
	insert(sparse, t.articles)
	insert(dense, t.articles)
	return []int{min(int(sparse.Estimate()), t.events), min(int(dense.Estimate()), t.events)}
}
