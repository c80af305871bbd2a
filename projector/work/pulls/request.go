package pulls

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/schemas/stream"
)

// request is the body of a pull, as JetStream reads it.
type request struct {
	Batch     int           `json:"batch,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	MaxBytes  int           `json:"max_bytes,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
}

// minHeartbeat is the least interval at which a client is told that the server is
// alive.
const minHeartbeat = 500 * time.Millisecond

// parse reads a request. It is not fine if JetStream would refuse it: then JetStream is
// asked, so that the client gets its answer. What JetStream takes for a request of one
// message is one here.
func parse(data []byte) (r request, fine bool) {
	var all struct {
		request
		ID            string `json:"id"`
		MinPending    int64  `json:"min_pending"`
		MinAckPending int64  `json:"min_ack_pending"`
	}
	text := bytes.TrimSpace(data)
	if len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, &all); err != nil {
			return r, false
		}
	} else if n, err := strconv.Atoi(string(text)); err == nil {
		all.Batch = n
	}
	r = all.request
	switch {
	case r.Batch < 0 || r.Batch > stream.MaxPullBatch,
		r.Expires < 0 || r.Expires > stream.MaxPullExpires,
		r.MaxBytes < 0 || r.MaxBytes > stream.MaxPullBytes,
		r.Heartbeat < 0 || r.Heartbeat*2 > r.Expires,
		all.MinPending != 0 || all.MinAckPending != 0 || all.ID != "":
		return r, false
	case r.Batch == 0:
		r.Batch = 1
	}
	if r.Expires == 0 && !r.NoWait {
		r.Expires = stream.MaxPullExpires
	}
	if r.Heartbeat > 0 {
		r.Heartbeat = max(r.Heartbeat, minHeartbeat)
	}
	return r, true
}
