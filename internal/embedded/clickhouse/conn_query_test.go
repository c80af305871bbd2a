package clickhouse

import (
	"bytes"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// scripted is a client's end that has sent something, and notes whether it was
// read under a deadline.
type scripted struct {
	net.Conn
	sent     io.Reader
	deadline time.Time
	bounded  bool
}

func (c *scripted) SetReadDeadline(at time.Time) error { c.deadline = at; return nil }

func (c *scripted) Read(p []byte) (int, error) {
	c.bounded = !c.deadline.IsZero()
	return c.sent.Read(p)
}

// login is a session of one who may write or not.
type login struct {
	session
	may bool
}

func (l login) writes() bool { return l.may }

// TestReadQueryOfAnalyst: an analyst has a time to send a query in, which ends
// with it, and no blocks.
func TestReadQueryOfAnalyst(t *testing.T) {
	var b proto.Buffer
	proto.Query{
		Body: "SELECT 1", Stage: proto.StageComplete,
		Info: proto.ClientInfo{
			ProtocolVersion: native.Revision, Interface: proto.InterfaceTCP,
			Query: proto.ClientQueryInitial,
		},
	}.EncodeAware(&b, native.Revision)
	b.Buf = append(b.Buf, native.ClientData, 0, 0, 0, 0)
	for _, writes := range []bool{false, true} {
		client := &scripted{sent: bytes.NewReader(b.Buf[1:])}
		c := &conn{net: client, in: native.NewReader(client), sess: login{may: writes}}
		packet, blocks, err := c.readQuery(t.Context())
		if err != nil || packet.Text != "SELECT 1" {
			t.Fatalf("%+v, %v", packet, err)
		}
		if client.bounded == writes || (blocks != nil) != writes || !client.deadline.IsZero() {
			t.Errorf("who may write (%v) is read under a deadline: %v, has blocks: %v, keeps %v", writes,
				client.bounded, blocks != nil, client.deadline)
		}
	}
}

// TestAnalystsFrames: what announces its own size is not unpacked for analysts.
func TestAnalystsFrames(t *testing.T) {
	w := compress.NewWriter(compress.LevelZero, compress.LZ4)
	if err := w.Compress([]byte("SELECT 1")); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[account]int{reader: codeNotImplemented, writer: 0} {
		_, err := readRequest(httptest.NewRequest("POST", "/?decompress=1", bytes.NewReader(w.Data)), who, nil)
		if (err != nil) != (want != 0) || err != nil && asException(err).Code != want {
			t.Errorf("account %d: %v", who, err)
		}
	}
}

// TestLongestRead: an analyst's query over HTTP has as much as it may have, and
// no byte more.
func TestLongestRead(t *testing.T) {
	for size, want := range map[int]int{maxRead: 0, maxRead + 1: codeTooLarge} {
		body := "SELECT 1 -- " + strings.Repeat("x", size-len("SELECT 1 -- "))
		_, err := readRequest(httptest.NewRequest("POST", "/", strings.NewReader(body)), reader, nil)
		if (err != nil) != (want != 0) || err != nil && asException(err).Code != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
