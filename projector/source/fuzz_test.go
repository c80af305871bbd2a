package source

import (
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
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
		got, err := parseMetadata([]byte(reply))
		want, ok := plainMetadata(reply)
		if (err == nil) != ok || ok && got != want {
			t.Fatalf("%q is read as %+v, %v, want %+v, %v", reply, got, err, want, ok)
		}
	})
}

// FuzzParseStatus: code and description are those that the NATS client reads.
func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("NATS/1.0 409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: 1\r\nNats-Pending-Bytes: 2\r\n\r\n"))
	f.Add([]byte("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 42\r\n\r\n"))
	f.Add([]byte("NATS/1.0404\r\n\r\n"))
	f.Fuzz(func(t *testing.T, header []byte) {
		got, fields, err := parseStatus(header)
		want, wantErr := nats.DecodeHeadersMsg(header)
		if err != nil || wantErr != nil {
			return // they differ in what else they mind
		}
		if code := want.Get("Status"); len(got.code) == 3 && code != "" && (code != got.code || want.Get("Description") != got.description) {
			t.Fatalf("%q is read as %+v, want %v", header, got, want)
		}
		for _, name := range []string{"Nats-Pending-Messages", "Nats-Pending-Bytes", "Nats-Last-Consumer", "Nats-Last-Stream"} {
			if values := want[name]; len(values) > 0 && fields.Get(name) != values[0] {
				t.Fatalf("%q: %s is %q, want %q", header, name, fields.Get(name), values[0])
			}
		}
	})
}
