package reads

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/item"
)

// Cursor is how a list encodes the position of the last item of a page.
type Cursor[P any] struct {
	Encode func(P) string
	Decode func(string) (P, bool) // false: the text is no cursor of this list
}

// Read sets the position behind which the page of a cursor begins; without a cursor, it stays as it is.
func (c Cursor[P]) Read(cursor string, after *P) error {
	if cursor == "" {
		return nil
	}
	at, ok := c.Decode(cursor)
	if !ok {
		return &item.Invalid{Field: "cursor", Code: "cursor", Rule: "must be next_cursor of the page before"}
	}
	*after = at
	return nil
}

// Pair is a position in a list in the order of two numbers.
type Pair [2]uint64

// pairSize is how many bytes a cursor of a pair has: two numbers, and a checksum that finds mistyped ones and those of
// other lists. Its text is their base64url.
const pairSize = 8 + 8 + 4

// Pairs returns cursors of a list in the order of two numbers. The name tells them from those of other lists, and from
// those of another order of the same list. It panics if another list has the name.
func Pairs(name string) Cursor[Pair] {
	if _, taken := lists.LoadOrStore(name, nil); taken {
		panic("reads: two lists have cursors named " + name)
	}
	sum := func(pair []byte) uint32 { return crc32.Update(crc32.ChecksumIEEE([]byte(name)), crc32.IEEETable, pair) }
	return Cursor[Pair]{
		Encode: func(p Pair) string {
			out := binary.BigEndian.AppendUint64(nil, p[0])
			out = binary.BigEndian.AppendUint64(out, p[1])
			return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(out, sum(out)))
		},
		Decode: func(text string) (p Pair, ok bool) {
			if len(text) != base64.RawURLEncoding.EncodedLen(pairSize) {
				return p, false
			}
			in, err := base64.RawURLEncoding.Strict().DecodeString(text)
			// Line breaks are skipped by the decoder: as many characters may be fewer bytes.
			if err != nil || len(in) != pairSize || binary.BigEndian.Uint32(in[16:]) != sum(in[:16]) {
				return p, false
			}
			return Pair{binary.BigEndian.Uint64(in), binary.BigEndian.Uint64(in[8:])}, true
		},
	}
}

// lists are the names of lists with cursors of pairs.
var lists sync.Map

// Convert returns cursors of positions of another type, which are encoded as pairs. from returns false for a pair that
// is not a position.
func Convert[P any](pairs Cursor[Pair], to func(P) Pair, from func(Pair) (P, bool)) Cursor[P] {
	return Cursor[P]{
		Encode: func(p P) string { return pairs.Encode(to(p)) },
		Decode: func(text string) (p P, ok bool) {
			pair, ok := pairs.Decode(text)
			if !ok {
				return p, false
			}
			return from(pair)
		},
	}
}

// IDs returns cursors of a list in the order of ids, as [Pairs] does.
func IDs(name string) Cursor[uuid.UUID] {
	return Convert(Pairs(name), func(id uuid.UUID) Pair {
		return Pair{binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])}
	}, func(p Pair) (id uuid.UUID, ok bool) {
		binary.BigEndian.PutUint64(id[:8], p[0])
		binary.BigEndian.PutUint64(id[8:], p[1])
		return id, true
	})
}

// Times returns cursors of a list in the order of times, in microseconds, as [Pairs] does.
func Times(name string) Cursor[time.Time] {
	return Convert(Pairs(name), func(t time.Time) Pair {
		return Pair{uint64(t.UnixMicro())}
	}, func(p Pair) (time.Time, bool) {
		t, err := instant.FromMicro(int64(p[0]))
		return t, err == nil
	})
}
