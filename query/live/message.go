package live

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/klauspost/compress/flate"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// maxFrames bounds how many forms of a snapshot are kept for others to send.
const maxFrames = 32

// messages are the forms in which a snapshot is sent. What they have in common is
// encoded and compressed once. It is safe for concurrent use.
type messages struct {
	rest []byte // of every form: what follows the head

	mu       sync.Mutex
	deflated []byte // rest as blocks of deflate; nil until it is asked for
	frames   map[form][]byte
	event    []byte // for event streams
}

// form is how a snapshot is sent over WebSockets.
type form struct {
	id         string
	at         snapshotID
	compressed bool
}

// newMessages takes the state of a view, which the messages have under a name.
func newMessages(name string, body json.RawMessage) *messages {
	var rest bytes.Buffer
	rest.WriteString(`,"` + name + `":`)
	if !bytes.ContainsAny(body, "\r\n") { // each line of an event has a name of its own
		rest.Write(body)
	} else if json.Compact(&rest, body) != nil {
		rest.WriteString("null")
	}
	rest.WriteByte('}')
	return &messages{rest: rest.Bytes(), frames: map[form][]byte{}}
}

// appendSnapshotID appends the members that name a snapshot.
func appendSnapshotID(b []byte, p snapshotID) []byte {
	b = append(b, `"seq":`...)
	b = strconv.AppendUint(b, p.seq, 10)
	b = append(b, `,"epoch":"`...)
	b = append(b, p.epoch...)
	return append(b, '"')
}

// head is the begin of a WebSocket's message: {"id":…,"seq":…,"epoch":…
func head(id string, p snapshotID) []byte {
	name, _ := json.Marshal(id) // a string always has a JSON form
	b := append([]byte(`{"id":`), name...)
	return appendSnapshotID(append(b, ','), p)
}

// frame returns the WebSocket's frame for a subscription.
func (m *messages) frame(id string, p snapshotID, compressed bool) []byte {
	f := form{id, p, compressed}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ready := m.frames[f]; ready != nil {
		return ready
	}
	head := head(id, p)
	var frame []byte
	if compressed {
		frame = m.deflatedFrame(head)
	} else {
		frame = append(append(appendFrameHeader(nil, false, len(head)+len(m.rest)), head...), m.rest...)
	}
	if len(m.frames) < maxFrames {
		m.frames[f] = frame
	}
	return frame
}

// deflatedFrame returns a frame of permessage-deflate. The heads differ between
// subscriptions, so each is a stored block before the blocks that all share. The
// lock is held.
func (m *messages) deflatedFrame(head []byte) []byte {
	if m.deflated == nil {
		var b bytes.Buffer
		_ = flate.StatelessDeflate(&b, m.rest, false, nil)                 // a buffer does not fail
		m.deflated = bytes.TrimSuffix(b.Bytes(), []byte{0, 0, 0xff, 0xff}) // RFC 7692, 7.2.1
	}
	n := uint16(len(head)) // an id is short
	stored := binary.LittleEndian.AppendUint16([]byte{0}, n)
	stored = append(binary.LittleEndian.AppendUint16(stored, ^n), head...)
	frame := appendFrameHeader(nil, true, len(stored)+len(m.deflated))
	return append(append(frame, stored...), m.deflated...)
}

// appendFrameHeader appends the header of a frame that is a whole text.
func appendFrameHeader(b []byte, compressed bool, size int) []byte {
	const final, deflated, text = 0x80, 0x40, 0x1
	first := byte(final | text)
	if compressed {
		first |= deflated
	}
	switch {
	case size < 126:
		return append(b, first, byte(size))
	case size < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, first, 126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(size))
}

// eventText returns the message as a server-sent event. All event streams of a
// feed have the same snapshot ids.
func (m *messages) eventText(p snapshotID) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.event == nil {
		b := []byte("id: " + p.eventID() + "\ndata: {")
		b = append(appendSnapshotID(b, p), m.rest...)
		m.event = append(b, "\n\n"...)
	}
	return m.event
}

// unchangedMessage tells a subscription that its reader has the newest snapshot.
func unchangedMessage(id string, p snapshotID) []byte {
	return append(head(id, p), `,"unchanged":true}`...)
}

// LiveError is a message that tells why a request was not accepted, or why a
// view cannot be shown at present.
type LiveError struct {
	ID    string           `json:"id" doc:"As in the request; empty in an event stream" example:"a"`
	Error *httpapi.Problem `json:"error"`
}
