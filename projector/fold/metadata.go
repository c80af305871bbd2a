package fold

import (
	"errors"
	"math"
	"strings"
)

// metadata is what a consumer's reply subject says of a message.
type metadata struct {
	stream   uint64 // sequence in the stream
	consumer uint64 // sequence in the consumer, from 1, without gaps
	time     int64  // when the stream received it, Unix nanoseconds
	pending  uint64 // messages of the stream that come after it
}

var errNoMetadata = errors.New("the reply subject is not that of a consumer")

// parseMetadata reads
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//
// or the form with <domain>.<account> before the stream and perhaps a token at
// the end (NATS ADR-15). It does not allocate.
func parseMetadata(reply string) (m metadata, err error) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return m, errNoMetadata
	}
	skip := 3 // stream, consumer, delivered
	if strings.Count(rest, ".") >= 8 {
		skip = 5
	}
	for range skip {
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			return m, errNoMetadata
		}
		rest = rest[i+1:]
	}
	var at uint64
	for _, field := range [...]*uint64{&m.stream, &m.consumer, &at, &m.pending} {
		if *field, rest, ok = cutUint(rest); !ok {
			return m, errNoMetadata
		}
	}
	m.time = int64(at)
	return m, nil
}

// cutUint reads the number before the next dot, or before the end. It refuses a
// number that does not fit into 64 bits.
func cutUint(text string) (n uint64, rest string, ok bool) {
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '.':
			return n, text[i+1:], i > 0
		case c < '0' || c > '9':
			return 0, "", false
		}
		digit := uint64(c - '0')
		if n > math.MaxUint64/10 || n*10 > math.MaxUint64-digit {
			return 0, "", false
		}
		n = n*10 + digit
	}
	return n, "", len(text) > 0
}
