package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// A restore to servers marks all of them before it writes anything, NATS first, and removes the marks when it has
// ended, that of NATS last. While NATS has its mark, no process of Millrace works there. What a marked server has of an
// installation was written by a restore that has not ended: the next restore removes it, and begins again.

// markKey is the key of the mark in its bucket.
const markKey = "restore"

// mark is what NATS has of a restore that has not ended.
type mark struct {
	Set     string   `json:"set"`     // the sum of its manifest
	Refold  bool     `json:"refold"`  // ClickHouse alone is made anew: the streams are to be kept
	Streams []string `json:"streams"` // that it restores
	Filled  bool     `json:"filled"`  // everything is restored, and marks remain

	kv jetstream.KeyValue
}

// readMark returns the mark of a server, nil if it has none.
func readMark(ctx context.Context, js jetstream.JetStream) (*mark, error) {
	kv, err := js.KeyValue(ctx, stream.Restoring)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	m := &mark{kv: kv}
	var e jetstream.KeyValueEntry
	if err == nil {
		e, err = kv.Get(ctx, markKey)
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) { // it had not begun to write
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(e.Value(), m)
	}
	if err != nil {
		return nil, fmt.Errorf("read the bucket %s: %w", stream.Restoring, err)
	}
	return m, nil
}

// setMark marks a server.
func setMark(ctx context.Context, js jetstream.JetStream, m mark, replicas int) (*mark, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: stream.Restoring, Description: "a restore that has not ended", Replicas: replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("mark the NATS server: %w", err)
	}
	m.kv = kv
	return &m, m.put(ctx)
}

func (m *mark) put(ctx context.Context) error {
	text, err := json.Marshal(m)
	if err == nil {
		_, err = m.kv.Put(ctx, markKey, text)
	}
	if err != nil {
		return fmt.Errorf("mark the NATS server: %w", err)
	}
	return nil
}

func removeMark(ctx context.Context, js jetstream.JetStream) error {
	if err := js.DeleteKeyValue(ctx, stream.Restoring); err != nil {
		return fmt.Errorf("remove the bucket %s: %w", stream.Restoring, err)
	}
	return nil
}

// claimNATS has the streams of a set restored to a server that has none of them, or to one whose restore has not ended,
// whose streams it removes. filled: that restore lacks nothing but its end.
func (in Installation) claimNATS(
	ctx context.Context, js jetstream.JetStream, set string, info *natsInfo, others func() error, replicas int,
) (m *mark, filled bool, err error) {
	if err := in.checkServer(info.Server); err != nil {
		return nil, false, err
	}
	before, err := readMark(ctx, js)
	if err != nil {
		return nil, false, err
	}
	switch {
	case before == nil:
	case before.Refold:
		return nil, false, errors.New("a refold on these servers has not ended: run \"millrace refold\" to its end")
	case before.Filled && before.Set == set:
		return before, true, nil
	case before.Filled:
		return nil, false, errors.New("another backup has been restored to these servers, but for its end: run that " +
			"restore again")
	default:
		in.Log.Warn("a restore to these servers has not ended: beginning again")
		for _, name := range before.Streams {
			if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil, false, fmt.Errorf("remove what is restored of the stream %s: %w", name, err)
			}
		}
	}
	names, err := StreamNames(ctx, in.NATS)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		if _, ours := info.Streams[name]; ours {
			return nil, false, fmt.Errorf("NATS has a stream %s: restore to a server without the streams of an installation",
				name)
		}
	}
	if err := others(); err != nil {
		return nil, false, err
	}
	m, err = setMark(ctx, js, mark{Set: set, Streams: slices.Sorted(maps.Keys(info.Streams))}, replicas)
	return m, false, err
}

// checkServer returns an error for a server that is older than the one of the set: it need not know all that the
// streams are configured to do, nor read their files.
func (in Installation) checkServer(of string) error {
	here := in.NATS.ConnectedServerVersion()
	if older(here, of) {
		return fmt.Errorf("the NATS server has version %s, and the backup was made of one with version %s: restore to a "+
			"server that is no older", here, of)
	}
	return nil
}

// older compares the first two numbers of versions. One that has none is not older.
func older(a, b string) bool {
	x, ok := release(a)
	y, ok2 := release(b)
	return ok && ok2 && slices.Compare(x, y) < 0
}

func release(version string) (numbers []int, ok bool) {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return []int{major, minor}, err == nil
}

// notRestoring returns an error for a server to which an installation is being restored.
func notRestoring(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return stream.CheckRestored(ctx, js)
}
