package funnel

import (
	"encoding/binary"
	"fmt"
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
	// MaxEntries bounds the entries of a message, so that it stays below the
	// payload of 1 MB that NATS takes by default.
	MaxEntries = 40_000
)

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
	if r.bad || n != uint64(len(r.data))/entrySize || len(r.data)%entrySize != 0 || d.Part >= d.Parts || d.From >= d.To {
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
