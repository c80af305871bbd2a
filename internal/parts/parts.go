// Package parts carries values over a stream that are larger than its messages.
//
//  1. A value is compressed, and cut into parts. All parts of a value are published in one
//     atomic batch: they are on the stream one behind the other, or none is.
//  2. A Joiner returns a value with its last part. Parts that are no value are an error,
//     and never a part of another value.
package parts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// Bounds of a value.
const (
	// MaxSize is how many bytes it has before it is compressed.
	MaxSize = 192 << 20
	// MaxParts is how many messages a server takes as one atomic batch.
	MaxParts = 1000
	// partSize is how many bytes a part has, unless the server takes less.
	partSize = 512 << 10
	// prefix is the size of the number of a part and of the number of parts.
	prefix = 4
)

// Value is a value in its parts, as they are published.
type Value []*nats.Msg

// Cut compresses a value, and cuts it into parts that the server takes.
func Cut(js jetstream.JetStream, subject string, value []byte) (Value, error) {
	v, err := split(subject, value, min(partSize, int(js.Conn().MaxPayload())-1024))
	if err != nil {
		return nil, fmt.Errorf("publish to %s: %w", subject, err)
	}
	return v, nil
}

// Size is how many bytes the parts have.
func (v Value) Size() (size int) {
	for _, m := range v {
		size += len(m.Data)
	}
	return size
}

// Publish publishes values in their order and returns when all of them are durable. As many
// as a server takes at once are one atomic batch, which is synced once. After an error some of
// them may be durable.
func Publish(ctx context.Context, js jetstream.JetStream, values ...Value) error {
	for len(values) > 0 {
		var msgs []*nats.Msg
		for len(values) > 0 && len(msgs)+len(values[0]) <= MaxParts {
			msgs, values = append(msgs, values[0]...), values[1:]
		}
		var err error
		if len(msgs) == 1 {
			_, err = js.PublishMsg(ctx, msgs[0])
		} else {
			_, err = jetstreamext.PublishMsgBatch(ctx, js, msgs, jetstreamext.BatchFlowControl{})
		}
		if err != nil {
			return fmt.Errorf("publish %d parts to %s: %w", len(msgs), msgs[0].Subject, err)
		}
	}
	return nil
}

// Single returns the data of the one message that carries a value. A value that needs
// several is an error.
func Single(value []byte) ([]byte, error) {
	v, err := split("", value, partSize)
	if err == nil && len(v) > 1 {
		err = fmt.Errorf("a value of %d bytes does not fit into one message", len(value))
	}
	if err != nil {
		return nil, err
	}
	return v[0].Data, nil
}

// encoder and decoder are for all values: making one takes longer than most values do.
var (
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	})
	decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxSize))
	})
)

func split(subject string, value []byte, size int) (Value, error) {
	if len(value) > MaxSize {
		return nil, fmt.Errorf("a value must have at most %d bytes, and not %d", MaxSize, len(value))
	}
	zip, err := encoder()
	if err != nil {
		return nil, err
	}
	value = zip.EncodeAll(value, make([]byte, 0, len(value)/4))
	n := max(1, (len(value)+size-1)/size)
	if n > MaxParts {
		return nil, fmt.Errorf("it has %d parts of %d bytes, more than %d: raise max_payload of the server", n, size, MaxParts)
	}
	v := make(Value, n)
	for i := range v {
		part := value[i*size : min((i+1)*size, len(value))]
		data := make([]byte, prefix, prefix+len(part))
		binary.BigEndian.PutUint16(data, uint16(i))
		binary.BigEndian.PutUint16(data[2:], uint16(n))
		v[i] = &nats.Msg{Subject: subject, Data: append(data, part...), Header: nats.Header{}}
	}
	return v, nil
}

// Joiner puts parts together. The zero value is ready. One goroutine at a time may use it.
type Joiner struct {
	value []byte // compressed, as far as it has come
	next  int    // the number of the part that comes next
	of    int
}

// errParts is the error of messages that are no parts of one value.
var errParts = errors.New("messages are not the parts of a value")

// Take takes the data of the next message, and returns the value that it completes, or nil.
// After an error the Joiner waits for the first part of a value.
func (j *Joiner) Take(data []byte) ([]byte, error) {
	lost := j.next
	number, of := -1, 0
	if len(data) > prefix {
		number, of = int(binary.BigEndian.Uint16(data)), int(binary.BigEndian.Uint16(data[2:]))
	}
	if number == 0 {
		j.value, j.next, j.of = nil, 0, of
	}
	if number != j.next || of != j.of || number >= of || of > MaxParts {
		*j = Joiner{}
		return nil, fmt.Errorf("%w: part %d of %d follows %d parts", errParts, number+1, of, lost)
	}
	j.value = append(j.value, data[prefix:]...)
	if j.next++; j.next < j.of {
		return nil, abandoned(number, lost)
	}
	whole := j.value
	*j = Joiner{}
	zip, err := decoder()
	if err != nil {
		return nil, err
	}
	value, err := zip.DecodeAll(whole, []byte{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errParts, err)
	}
	return value, abandoned(number, lost)
}

// abandoned is the error of a first part that follows parts of a value that has no end.
func abandoned(number, lost int) error {
	if number == 0 && lost > 0 {
		return fmt.Errorf("%w: another value follows %d parts", errParts, lost)
	}
	return nil
}

// Whole tells whether no value is under way.
func (j *Joiner) Whole() bool { return j.next == 0 }
