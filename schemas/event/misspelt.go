package event

import (
	"bytes"
	"slices"
	"strings"
)

// viewFields are the metadata fields that views use, as Metadata has them.
var viewFields = [...]string{
	"quality_score", "topics", "model_version", "content_type", "channel", "is_reclassification", "is_duplicate",
	"backfilled",
}

// longName is from how many letters on a name that differs in one of them is a
// misspelling rather than another name.
const longName = 10

// Misspelt returns the metadata fields of a decoded event whose names are nearly
// those of fields that views use, so that no view would have them:
//
//   - they differ in case or in the characters between words (qualityScore),
//   - they have "is" before the name (is_backfilled), or lack it and hold true or
//     false (reclassification),
//   - they differ in one letter of a name of ten or more (model_vesion), or in two
//     neighbours that have changed places, but for a plural.
//
// Other names are free. A name whose right form stands beside it is another one.
func (r *Record) Misspelt() (found []*Invalid) {
	if len(r.Metadata) == 0 || (len(r.faults) > 0 && r.faults[0].Field == "") {
		return nil
	}
	d := decoder{scanner: scanner{data: r.Metadata}}
	d.object((*decoder).spelling)
	for _, s := range d.spellings {
		if !d.present[s.meant] {
			found = append(found, &Invalid{
				"metadata." + s.name, "metadata_misspelt", "is used by no view: write " + viewFields[s.meant] +
					", or choose a name that is less alike",
			})
		}
	}
	return found
}

// spelling is a name and the one that was probably meant.
type spelling struct {
	name  string
	meant int // place in viewFields
}

// spelling notes the field of a metadata object.
func (d *decoder) spelling(key []byte) bool {
	value := d.peek()
	if len(key) < 32 && value != 'n' { // null is the same as absent
		if i := slices.Index(viewFields[:], string(key)); i >= 0 {
			d.present[i] = true
		} else if meant := nearField(key, value == 't' || value == 'f'); meant >= 0 {
			d.spellings = append(d.spellings, spelling{string(key), meant})
		}
	}
	return d.skip(1)
}

// nearField returns the place of the field that a name nearly is, -1 for none.
func nearField(key []byte, truth bool) int {
	var space [32]byte
	name := foldName(space[:0], key)
	for i, field := range viewFields {
		var other [32]byte
		want := foldName(other[:0], []byte(field))
		switch {
		case bytes.Equal(name, want), bytes.Equal(bytes.TrimPrefix(name, []byte("is")), want):
			return i
		case truth && strings.HasPrefix(field, "is_") && bytes.Equal(name, want[len("is"):]):
			return i
		case len(want) >= longName && oneTypo(name, want) && !bytes.Equal(name, append(want, 's')):
			return i
		}
	}
	return -1
}

// foldName appends a name in lower case, without what separates words.
func foldName(dst, name []byte) []byte {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != '_' && c != '-' && c != '.' && c != ' ' {
			dst = append(dst, c)
		}
	}
	return dst
}

// oneTypo tells whether two names are one typing mistake apart: a byte too many,
// too few or another, or two that have changed places. An edit distance would
// tell less at a higher price: this is done for each field of each event.
func oneTypo(a, b []byte) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	rest := a[i:]
	if len(a) < len(b) {
		return bytes.Equal(rest, b[i+1:])
	}
	if len(rest) == 0 {
		return false
	}
	if bytes.Equal(rest[1:], b[i+1:]) {
		return true
	}
	return len(rest) > 1 && rest[0] == b[i+1] && rest[1] == b[i] && bytes.Equal(rest[2:], b[i+2:])
}
