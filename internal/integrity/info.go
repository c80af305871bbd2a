package integrity

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/instant"
)

// info is what the server says of a stream. The client library does not hand on
// State.Lost.
type info struct {
	Created instant.Time        `json:"created"`
	Config  settings            `json:"config"`
	State   state               `json:"state"`
	Error   *jetstream.APIError `json:"error"`
}

type settings struct {
	Replicas  int                       `json:"num_replicas"`
	MaxAge    time.Duration             `json:"max_age"`
	Retention jetstream.RetentionPolicy `json:"retention"`
}

type state struct {
	Msgs       uint64       `json:"messages"`
	FirstSeq   uint64       `json:"first_seq"`
	LastSeq    uint64       `json:"last_seq"`
	LastTime   instant.Time `json:"last_ts"`
	NumDeleted int          `json:"num_deleted"`
	Deleted    []uint64     `json:"deleted"`
	Lost       *said        `json:"lost"`
}

// said is what the server says it has lost since it was started. It does not know
// the sequences in a block that was damaged before it first counted it.
type said struct {
	Msgs  []uint64 `json:"msgs"`
	Bytes uint64   `json:"bytes"`
}

// ask returns what the server says of a stream, with the sequences that are
// deleted if details are wanted.
func ask(ctx context.Context, nc *nats.Conn, name string, details bool) (i info, err error) {
	var request []byte
	if details {
		request = []byte(`{"deleted_details":true}`)
	}
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+name, request)
	if err != nil {
		return i, fmt.Errorf("ask for the state of stream %s: %w", name, err)
	}
	if err := json.Unmarshal(m.Data, &i); err != nil {
		return i, fmt.Errorf("read the state of stream %s: %w", name, err)
	}
	if i.Error != nil {
		if i.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound {
			return i, fmt.Errorf("stream %s: %w", name, jetstream.ErrStreamNotFound)
		}
		return i, fmt.Errorf("ask for the state of stream %s: %w", name, i.Error)
	}
	if i.State.LastSeq == 0 { // else one that was never written to has deleted sequence 0
		i.State.NumDeleted, i.State.Deleted = 0, nil
	}
	return i, nil
}

// detailsLimit bounds how many deleted sequences the server is asked to name.
const detailsLimit = 100_000

// lost returns what the server says it has lost, from a sequence on. When the
// first record of a block is damaged, it counts among that all sequences from 1 on,
// so what is there does not count. last is the last sequence that the stream had.
func (s state) lost(first, last uint64) Ranges {
	if s.Lost == nil || len(s.Lost.Msgs) == 0 {
		return nil
	}
	missing := rangesOf(s.Deleted)
	if s.FirstSeq > first {
		missing = missing.Plus(Ranges{{first, s.FirstSeq - 1}})
	}
	if last > s.LastSeq {
		missing = missing.Plus(Ranges{{s.LastSeq + 1, last}})
	}
	return rangesOf(s.Lost.Msgs).And(missing)
}
