package funnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/axiomhq/hyperloglog"
)

// StandardError is the relative standard error of a Set that has become a
// sketch: 1.04/sqrt(m) for m = 2^14 registers (Flajolet et al., HyperLogLog,
// 2007).
const StandardError = 0.008125

const (
	precision = 14 // of the sketch, as hyperloglog.New has it

	// listMax is how many ids a Set holds exactly. Most rows of a source
	// never hold more, and a list of them is smaller and faster than a sketch.
	listMax = 64
	// sparseMax is the size in bytes from which a sparse sketch is made
	// dense: beyond, sparse ones are slower to merge and hardly smaller.
	sparseMax = 4 << 10
)

// Set counts distinct articles by the first 64 bits of their hash. The zero
// value is empty. It is not safe for concurrent use, nor is reading it beside
// other reads: an estimate reorders the sketch.
type Set struct {
	ids    []uint64 // while sketch is nil
	sketch *hyperloglog.Sketch
	dense  bool
}

// Insert adds an article.
func (s *Set) Insert(id uint64) {
	if s.sketch != nil {
		s.sketch.InsertHash(id)
		return
	}
	if slices.Contains(s.ids, id) {
		return
	}
	if s.ids = append(s.ids, id); len(s.ids) > listMax {
		s.toSketch()
	}
}

// InsertExact adds an article, but not to a set that would become a sketch by it, nor
// to one that is: then it returns false. Whether it does depends on the articles alone,
// not on their order.
func (s *Set) InsertExact(id uint64) bool {
	switch {
	case s.sketch != nil:
		return false
	case slices.Contains(s.ids, id):
		return true
	case len(s.ids) == listMax:
		return false
	}
	s.ids = append(s.ids, id)
	return true
}

func (s *Set) toSketch() {
	s.sketch = hyperloglog.New14()
	for _, id := range s.ids {
		s.sketch.InsertHash(id)
	}
	s.ids = nil
}

// Merge adds all articles of o, which stays as it is.
func (s *Set) Merge(o *Set) error {
	if o.sketch == nil {
		for _, id := range o.ids {
			s.Insert(id)
		}
		return nil
	}
	if s.sketch == nil {
		s.toSketch()
	}
	if o.dense && !s.dense {
		s.toDense()
	}
	if err := s.sketch.Merge(o.sketch); err != nil {
		return fmt.Errorf("merge article sets: %w", err)
	}
	return nil
}

// toDense makes a sketch dense, by merging it into one that already is.
func (s *Set) toDense() {
	dense := hyperloglog.NewNoSparse()
	if err := dense.Merge(s.sketch); err != nil {
		panic("funnel: sketches of one precision do not merge: " + err.Error())
	}
	s.sketch, s.dense = dense, true
}

// Exact tells whether Estimate is the true number.
func (s *Set) Exact() bool { return s.sketch == nil }

// Estimate returns the number of distinct articles. For a dense sketch it
// takes in the order of a millisecond.
func (s *Set) Estimate() uint64 {
	if s.sketch == nil {
		return uint64(len(s.ids))
	}
	return s.sketch.Estimate()
}

// Clone returns a copy that shares nothing with s.
func (s *Set) Clone() *Set {
	c := &Set{ids: slices.Clone(s.ids), dense: s.dense}
	if s.sketch != nil {
		c.sketch = s.sketch.Clone()
	}
	return c
}

// Size returns about how many bytes of memory the set takes.
func (s *Set) Size() int {
	switch {
	case s.sketch == nil:
		return 64 + 8*cap(s.ids)
	case s.dense:
		return 128 + 1<<precision
	default:
		return 128 + 2*sparseMax
	}
}

// Kinds of encoding, the first byte.
const (
	kindList   = 1 // ids, 8 bytes each, little-endian
	kindSketch = 2 // as hyperloglog marshals it
)

// ErrMalformed is the error of decoding bytes that no encoder has written.
var ErrMalformed = errors.New("malformed")

// AppendBinary appends the set's encoding. The encoding is not canonical: two
// equal sets may differ in it.
func (s *Set) AppendBinary(dst []byte) ([]byte, error) {
	if s.sketch == nil {
		dst = append(dst, kindList)
		for _, id := range s.ids {
			dst = binary.LittleEndian.AppendUint64(dst, id)
		}
		return dst, nil
	}
	start := len(dst)
	dst, err := s.sketch.AppendBinary(append(dst, kindSketch))
	if err != nil {
		return dst, fmt.Errorf("encode article set: %w", err)
	}
	if !s.dense && len(dst)-start > sparseMax {
		s.toDense()
		return s.AppendBinary(dst[:start])
	}
	return dst, nil
}

// UnmarshalBinary decodes what AppendBinary wrote; no bytes are an empty set.
// It keeps nothing of data.
func (s *Set) UnmarshalBinary(data []byte) error {
	*s = Set{}
	if len(data) == 0 {
		return nil
	}
	kind, data := data[0], data[1:]
	switch {
	case kind == kindList && len(data)%8 == 0 && len(data)/8 <= listMax:
		s.ids = make([]uint64, 0, len(data)/8)
		for ; len(data) > 0; data = data[8:] {
			s.Insert(binary.LittleEndian.Uint64(data))
		}
		return nil
	case kind == kindSketch:
		sketch := new(hyperloglog.Sketch)
		if err := sketch.UnmarshalBinary(data); err != nil {
			return fmt.Errorf("decode article set: %w", err)
		}
		if data[1] != precision {
			return fmt.Errorf("decode article set: precision %d: %w", data[1], ErrMalformed)
		}
		s.sketch, s.dense = sketch, data[3] == 0
		return nil
	}
	return fmt.Errorf("decode article set: kind %d, %d bytes: %w", kind, len(data), ErrMalformed)
}
