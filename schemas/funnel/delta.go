package funnel

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// Entry is one event as the funnel sees it.
type Entry struct {
	Quarter uint32 // start of its quarter, Unix seconds
	Stage   uint16 // place in Delta.Stages
	Source  uint32 // place in Delta.Sources
	Article uint64 // first 64 bits of the article's hash
}

// Delta announces the events of a batch that has become durable: those of the
// stream sequences (From, To] that count. A batch too large for one message
// comes in Parts; a reader applies it when it has them all. A reader that has
// not applied everything up to From has missed a message and loads again.
type Delta struct {
	Group       uint32
	From, To    uint64
	Part, Parts uint32 // Part counts from 0
	Stages      []string
	Sources     []string
	Entries     []Entry
}

const (
	deltaVersion = 1
	entrySize    = 18
	// maxSize bounds the bytes of a message, so that it stays below the payload
	// of 1 MiB that NATS takes by default.
	maxSize = 900_000
)

// Split returns the delta in as many parts as messages take. Each of several
// names the sources of its own entries; one that fits is the delta as it is.
func (d *Delta) Split() []Delta {
	head := *d
	head.Part, head.Parts = 0, 1
	if head.sizeAtMost() <= maxSize {
		return []Delta{head}
	}
	head.Sources, head.Entries = nil, nil
	room := maxSize - head.sizeAtMost()
	var parts []Delta
	for left := slices.Clone(d.Entries); len(left) > 0 || len(parts) == 0; {
		part := head
		part.Part = uint32(len(parts))
		part.Sources, part.Entries = cut(d.Sources, left, room)
		left = left[len(part.Entries):]
		parts = append(parts, part)
	}
	for i := range parts {
		parts[i].Parts = uint32(len(parts))
	}
	return parts
}

// cut returns the first of the entries, as many as there is room for and one at
// least, and their sources, which it has them name by their new places.
func cut(sources []string, entries []Entry, room int) ([]string, []Entry) {
	var named []string
	places := map[uint32]uint32{} // among named
	for i := range entries {
		e := &entries[i]
		place, ok := places[e.Source]
		if room -= entrySize; !ok {
			room -= nameSizeAtMost(sources[e.Source])
		}
		if room < 0 && i > 0 {
			return named, entries[:i]
		}
		if !ok {
			place = uint32(len(named))
			named = append(named, sources[e.Source])
			places[e.Source] = place
		}
		e.Source = place
	}
	return named, entries
}

// sizeAtMost is what the encoding takes at most, in bytes.
func (d *Delta) sizeAtMost() int {
	size := 1 + 8*binary.MaxVarintLen64 + entrySize*len(d.Entries) // five numbers, three lengths
	for _, names := range [...][]string{d.Stages, d.Sources} {
		for _, name := range names {
			size += nameSizeAtMost(name)
		}
	}
	return size
}

func nameSizeAtMost(name string) int { return binary.MaxVarintLen32 + len(name) }

// AppendBinary appends the delta's encoding: a version byte, uvarints for the
// head, the two dictionaries, then fixed-size entries, little-endian.
func (d *Delta) AppendBinary(dst []byte) []byte {
	dst = append(dst, deltaVersion)
	for _, v := range [...]uint64{uint64(d.Group), d.From, d.To, uint64(d.Part), uint64(d.Parts)} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, names := range [...][]string{d.Stages, d.Sources} {
		dst = binary.AppendUvarint(dst, uint64(len(names)))
		for _, name := range names {
			dst = binary.AppendUvarint(dst, uint64(len(name)))
			dst = append(dst, name...)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.Entries)))
	for _, e := range d.Entries {
		dst = binary.LittleEndian.AppendUint32(dst, e.Quarter)
		dst = binary.LittleEndian.AppendUint16(dst, e.Stage)
		dst = binary.LittleEndian.AppendUint32(dst, e.Source)
		dst = binary.LittleEndian.AppendUint64(dst, e.Article)
	}
	return dst
}

// Sum is that of a delta's part in its encoded form.
type Sum [sha256.Size]byte

// SumOf returns the sum of an encoded part.
func SumOf(part []byte) Sum { return sha256.Sum256(part) }

// Digest returns that of a whole delta, of the sums of its parts in their order.
func Digest(parts []Sum) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// UnmarshalBinary decodes what AppendBinary wrote. It keeps nothing of data.
func (d *Delta) UnmarshalBinary(data []byte) error {
	r := reader{data: data}
	if r.byte() != deltaVersion {
		return fmt.Errorf("decode delta: unknown version: %w", ErrMalformed)
	}
	*d = Delta{
		Group: uint32(r.uvarint()), From: r.uvarint(), To: r.uvarint(),
		Part: uint32(r.uvarint()), Parts: uint32(r.uvarint()),
		Stages: r.names(), Sources: r.names(),
	}
	n := r.uvarint()
	if r.bad || n != uint64(len(r.data))/entrySize || len(r.data)%entrySize != 0 || d.Part >= d.Parts ||
		d.From >= d.To {
		return fmt.Errorf("decode delta: %d bytes: %w", len(data), ErrMalformed)
	}
	d.Entries = make([]Entry, n)
	for i := range d.Entries {
		b := r.data[i*entrySize:]
		e := Entry{
			Quarter: binary.LittleEndian.Uint32(b), Stage: binary.LittleEndian.Uint16(b[4:]),
			Source: binary.LittleEndian.Uint32(b[6:]), Article: binary.LittleEndian.Uint64(b[10:]),
		}
		if int(e.Stage) >= len(d.Stages) || int(e.Source) >= len(d.Sources) {
			return fmt.Errorf("decode delta: entry %d names no stage or source: %w", i, ErrMalformed)
		}
		d.Entries[i] = e
	}
	return nil
}

type reader struct {
	data []byte
	bad  bool
}

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		r.bad = true
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) names() []string {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.data)) {
		r.bad = true
		return nil
	}
	names := make([]string, 0, n)
	for range n {
		size := r.uvarint()
		if r.bad || size > uint64(len(r.data)) {
			r.bad = true
			return nil
		}
		names = append(names, string(r.data[:size]))
		r.data = r.data[size:]
	}
	return names
}
