package live

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// maxPrepared bounds how many forms of a snapshot are kept for others to send.
const maxPrepared = 32

// messages are the forms in which a snapshot is sent. Each is made and
// compressed once. It is safe for concurrent use.
type messages struct {
	rest []byte // of every form: what follows the head

	mu       sync.Mutex
	prepared map[string]*websocket.PreparedMessage // by their heads
	event    []byte                                // for event streams
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
	return &messages{rest: rest.Bytes(), prepared: map[string]*websocket.PreparedMessage{}}
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

// socketMessage returns the message of a subscription.
func (m *messages) socketMessage(id string, p snapshotID) (*websocket.PreparedMessage, error) {
	head := head(id, p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ready := m.prepared[string(head)]; ready != nil {
		return ready, nil
	}
	message, err := websocket.NewPreparedMessage(websocket.TextMessage, append(head[:len(head):len(head)], m.rest...))
	if err == nil && len(m.prepared) < maxPrepared {
		m.prepared[string(head)] = message
	}
	return message, err
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
