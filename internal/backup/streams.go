package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Streams of JetStream, and with them its buckets, are copied by the snapshots that the
// server makes. nats.go has no call for snapshots. jsm.go has, and would bring eleven
// modules into this one; the exchange is short enough to be written here.

// Subjects of the requests.
const (
	snapshotRequest = "$JS.API.STREAM.SNAPSHOT."
	restoreRequest  = "$JS.API.STREAM.RESTORE."
)

const (
	// answerWait bounds the answer to one request.
	answerWait = 30 * time.Second
	// finishWait bounds the answer to the last chunk, after which the server opens the stream.
	finishWait = 10 * time.Minute
	// chunkBytes is how much one message carries; less where the server takes no messages of that size. The server
	// gives a restore up when it takes more than 5 s to store a chunk.
	chunkBytes = 64 << 10
)

// StreamInfo is what the server needs to know of a stream to restore it. Its fields are the server's own JSON, so that
// nothing is lost which this release does not know.
type StreamInfo struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// StreamNames lists the streams of the account.
func StreamNames(ctx context.Context, nc *nats.Conn) (names []string, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	return names, nil
}

// StreamCopy is a snapshot that is under way. It has the messages up to the stream's end when it began, but for those that
// are removed meanwhile.
type StreamCopy struct {
	StreamInfo
	name  string
	sub   *nats.Subscription
	early atomic.Int64 // acknowledgements that were sent ahead of their chunks
}

// BeginCopy begins a snapshot. WriteTo has to follow at once: the server gives up a reader that is silent for 5 s.
func BeginCopy(ctx context.Context, nc *nats.Conn, name string) (*StreamCopy, error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // the server sends 8 MiB ahead at most
	}
	if err != nil {
		return nil, fmt.Errorf("copy stream %s: %w", name, err)
	}
	c := &StreamCopy{name: name, sub: sub}
	request := map[string]any{"deliver_subject": inbox, "chunk_size": 128 << 10}
	if err := ask(ctx, nc, snapshotRequest+name, request, &c.StreamInfo); err != nil {
		return nil, errors.Join(fmt.Errorf("copy stream %s: %w", name, err), sub.Unsubscribe())
	}
	return c, nil
}

// Cancel ends a copy that is not read.
func (c *StreamCopy) Cancel() { _ = c.sub.Unsubscribe() }

// WriteTo writes the snapshot.
func (c *StreamCopy) WriteTo(ctx context.Context, to io.Writer) error {
	defer c.Cancel()
	for {
		m, err := c.next(ctx)
		if err != nil {
			return fmt.Errorf("copy stream %s: %w", c.name, err)
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return fmt.Errorf("copy stream %s: the server says %s %s", c.name, status, m.Header.Get("Description"))
			}
			return nil
		}
		if err := c.write(to, m); err != nil {
			return fmt.Errorf("copy stream %s: %w", c.name, err)
		}
	}
}

// ackEvery is the time between two acknowledgements while one chunk is written. The server gives up a reader that
// sends none for 5 s, and a part of an object may well take that long to be sent to S3.
const ackEvery = 2 * time.Second

// write writes a chunk and acknowledges it. While that takes long it acknowledges others ahead: for each, the server
// sends one more, which waits in memory.
func (c *StreamCopy) write(to io.Writer, m *nats.Msg) error {
	if m.Reply == "" { // the last chunk
		_, err := to.Write(m.Data)
		return err
	}
	written := make(chan struct{})
	go func() {
		tick := time.NewTicker(ackEvery)
		defer tick.Stop()
		for {
			select {
			case <-written:
				return
			case <-tick.C:
				if m.Respond(nil) == nil {
					c.early.Add(1)
				}
			}
		}
	}()
	_, err := to.Write(m.Data)
	close(written)
	if err != nil {
		return err
	}
	if c.early.Load() > 0 {
		c.early.Add(-1)
		return nil
	}
	return m.Respond(nil)
}

func (c *StreamCopy) next(ctx context.Context) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return c.sub.NextMsgWithContext(ctx)
}

// RestoreStream makes a stream from a snapshot, with so many replicas.
func RestoreStream(ctx context.Context, nc *nats.Conn, info StreamInfo, replicas int, from io.Reader) error {
	config, name, err := configFor(info.Config, replicas)
	if err != nil {
		return fmt.Errorf("restore a stream: %w", err)
	}
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	err = ask(ctx, nc, restoreRequest+name, map[string]any{"config": config, "state": info.State}, &to)
	if err == nil {
		err = send(ctx, nc, to.Subject, from)
	}
	if err != nil {
		return fmt.Errorf("restore stream %s: %w", name, err)
	}
	return nil
}

// configFor is a configuration for the server at hand: copies and places of streams are its own.
func configFor(text json.RawMessage, replicas int) (config map[string]any, name string, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&config); err != nil {
		return nil, "", fmt.Errorf("its configuration: %w", err)
	}
	if name, _ = config["name"].(string); name == "" {
		return nil, "", errors.New("its configuration has no name")
	}
	config["num_replicas"] = replicas
	delete(config, "placement")
	return config, name, nil
}

// send sends the chunks one by one, and the empty one that ends them.
func send(ctx context.Context, nc *nats.Conn, subject string, from io.Reader) error {
	chunk := make([]byte, min(chunkBytes, nc.MaxPayload()))
	for {
		n, err := io.ReadFull(from, chunk)
		if n > 0 {
			if err := exchange(ctx, nc, subject, chunk[:n], answerWait); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return exchange(ctx, nc, subject, nil, finishWait)
		default:
			return err
		}
	}
}

func exchange(ctx context.Context, nc *nats.Conn, subject string, chunk []byte, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := nc.RequestWithContext(ctx, subject, chunk)
	if err != nil || len(answer.Data) == 0 {
		return err
	}
	return refusal(answer.Data)
}

// ask sends a request to JetStream.
func ask(ctx context.Context, nc *nats.Conn, subject string, request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := nc.RequestWithContext(ctx, subject, text)
	if err != nil {
		return err
	}
	if err := refusal(answer.Data); err != nil {
		return err
	}
	return json.Unmarshal(answer.Data, into)
}

// refusal is what the server says against a request.
func refusal(answer []byte) error {
	var said struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return fmt.Errorf("the server answers %.100q: %w", answer, err)
	}
	if said.Error != nil {
		return said.Error
	}
	return nil
}
