package source

import (
	"errors"
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
		if _, rest, ok = strings.Cut(rest, "."); !ok {
			return m, errNoMetadata
		}
	}
	var at uint64
	for _, field := range [...]*uint64{&m.stream, &m.consumer, &at, &m.pending} {
		var digits string
		digits, rest, _ = strings.Cut(rest, ".")
		if *field, ok = parseUint(digits); !ok {
			return m, errNoMetadata
		}
	}
	m.time = int64(at)
	return m, nil
}

func parseUint(s string) (n uint64, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, s != ""
}
