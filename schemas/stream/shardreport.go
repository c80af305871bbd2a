package stream

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ShardReport is a message of Shards: what a daemon reports that prefers NATS
// to HTTP. Its subject says what it is:
//
//	shards.register            the file and its shards exist
//	shards.event-ingest.done   the file is complete
//	shards.<stage>.<move>      start, done, fail or retry of one item
type ShardReport struct {
	Stage string `json:"-"` // empty: of a registration
	Move  string `json:"-"` // register, start, done, fail or retry

	Filename string  `json:"filename"`
	Shards   []int64 `json:"shards"` // with register
	Shard    *int64  `json:"shard"`  // with moves of one item
	Worker   string  `json:"worker"`
	Error    string  `json:"error"` // with fail: why
}

// ShardSubject is where a report goes.
func ShardSubject(stage, move string) string {
	if stage == "" {
		return "shards." + move
	}
	return "shards." + stage + "." + move
}

// ParseShardReport reads a message of Shards. It checks its shape alone.
func ParseShardReport(subject string, data []byte) (ShardReport, error) {
	var r ShardReport
	rest, ok := strings.CutPrefix(subject, "shards.")
	if !ok {
		return r, fmt.Errorf("subject %q is no report's", subject)
	}
	r.Move = rest
	if stage, move, ok := strings.Cut(rest, "."); ok {
		r.Stage, r.Move = stage, move
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("must be a JSON object with filename and shard, or shards: %w", err)
	}
	return r, nil
}
