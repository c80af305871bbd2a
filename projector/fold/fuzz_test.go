package fold

import (
	"strconv"
	"strings"
	"testing"
)

// plainMetadata reads a reply subject the plain way.
func plainMetadata(reply string) (m metadata, ok bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return m, false
	}
	tokens := strings.Split(rest, ".")
	if len(tokens) > 8 { // with domain and account
		tokens = tokens[2:]
	}
	if len(tokens) < 7 {
		return m, false
	}
	var n [4]uint64
	for i, text := range tokens[3:7] {
		var err error
		if n[i], err = strconv.ParseUint(text, 10, 64); err != nil || strings.HasPrefix(text, "+") {
			return m, false
		}
	}
	return metadata{stream: n[0], consumer: n[1], time: int64(n[2]), pending: n[3]}, true
}

// FuzzParseMetadata: what is read is what a plain reader reads, and nothing is
// read from what is no reply of a consumer.
func FuzzParseMetadata(f *testing.F) {
	f.Add("$JS.ACK.EVENTS.projector-0.1.42.7.1700000000000000001.3")
	f.Add("$JS.ACK.hub.AABBCC.EVENTS.projector-0.1.42.7.1700000000000000001.3.token")
	f.Add("$JS.ACK.EVENTS.c.1.18446744073709551616.7.1.3")
	f.Fuzz(func(t *testing.T, reply string) {
		got, err := parseMetadata(reply)
		want, ok := plainMetadata(reply)
		if (err == nil) != ok || ok && got != want {
			t.Fatalf("%q is read as %+v, %v, want %+v, %v", reply, got, err, want, ok)
		}
	})
}
