package objects

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/object"
	"github.com/millrace-io/millrace/schemas/stream"
)

// ErrMoved is the error of Append where another writer has stored more, or the chunks were discarded.
var ErrMoved = errors.New("another request has stored more of the object, or it is gone")

// Partial is what is stored of an object. Each chunk carries how much there is up to its end, so that
// whoever reads the last one can go on.
type Partial struct {
	Size int64 // bytes

	chunks uint32
	digest hash.Hash
	last   uint64 // sequence of the last chunk; 0: there is none
}

// MaxShort is how many chunks of an object may be shorter than chunkSize. Each part may end with one.
const MaxShort = 1 << 16

// ErrTooManyParts is the error of Append of an object that comes in too many small parts.
var ErrTooManyParts = fmt.Errorf("the object comes in more than %d parts of less than %d bytes", MaxShort, chunkSize)

// Headers of a chunk: bytes and chunks up to its end, and the state of the digest after it.
const (
	sizeHeader   = "Millrace-Size"
	chunksHeader = "Millrace-Chunks"
	digestHeader = "Millrace-Digest"
)

func newPartial() *Partial { return &Partial{digest: sha256.New()} }

// Partial returns what is stored of an object whose chunks have an id.
func (n *NATS) Partial(ctx context.Context, o object.Name, id string) (*Partial, error) {
	part, err := n.partial(ctx, &upload{js: n.js, object: o, id: id})
	if err != nil {
		return nil, fmt.Errorf("look at what is stored of object %s: %w", o, err)
	}
	return part, nil
}

func (n *NATS) partial(ctx context.Context, u *upload) (*Partial, error) {
	m, err := stream.GetLast(ctx, n.js, "OBJ_"+u.object.Bucket, u.chunkSubject())
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return newPartial(), nil
	}
	if err != nil {
		return nil, err
	}
	return partialAt(m)
}

// partialAt returns what is stored up to a chunk.
func partialAt(m *jetstream.RawStreamMsg) (*Partial, error) {
	part := newPartial()
	size, err := strconv.ParseInt(m.Header.Get(sizeHeader), 10, 64)
	chunks, err2 := strconv.ParseUint(m.Header.Get(chunksHeader), 10, 32)
	state, err3 := base64.StdEncoding.DecodeString(m.Header.Get(digestHeader))
	if err = errors.Join(err, err2, err3); err == nil {
		err = part.digest.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the headers of its last chunk cannot be read: %w", ErrDamaged, err)
	}
	part.Size, part.chunks, part.last = size, uint32(chunks), m.Sequence
	return part, nil
}

// Append stores what comes next of an object of at most limit bytes, and counts it in part. Of several
// writers one goes on, and the others get ErrMoved. After an error part tells how much of it is stored,
// and cannot be appended to.
func (n *NATS) Append(ctx context.Context, o object.Name, id string, limit int64, part *Partial, from io.Reader) error {
	u := upload{js: n.js, object: o, id: id, limit: limit}
	err := n.open(ctx, &u)
	if err == nil {
		err = u.chunks(ctx, part, from)
	}
	if err != nil {
		return fmt.Errorf("append to object %s: %w", o, err)
	}
	return nil
}

// Finish makes an object of what is stored. It may be called again.
func (n *NATS) Finish(ctx context.Context, o object.Name, id string, part *Partial) (Stored, error) {
	u := upload{js: n.js, object: o, id: id, keep: true}
	var stored Stored
	err := n.open(ctx, &u)
	if err == nil {
		stored, err = u.describe(ctx, part)
	}
	if err != nil {
		return stored, fmt.Errorf("finish object %s: %w", o, err)
	}
	return stored, nil
}

// chunk stores a chunk, if it is the next one.
func (u *upload) chunk(ctx context.Context, part *Partial, data []byte) error {
	if int64(part.chunks)-part.Size/chunkSize >= MaxShort {
		return ErrTooManyParts
	}
	part.digest.Write(data)
	state, err := part.digest.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return err
	}
	m := nats.NewMsg(u.chunkSubject())
	m.Data = data
	m.Header.Set(sizeHeader, strconv.FormatInt(part.Size+int64(len(data)), 10))
	m.Header.Set(chunksHeader, strconv.FormatUint(uint64(part.chunks)+1, 10))
	m.Header.Set(digestHeader, base64.StdEncoding.EncodeToString(state))
	ack, err := u.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(part.last))
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return ErrMoved
	}
	if err != nil {
		return err
	}
	part.Size += int64(len(data))
	part.chunks++
	part.last = ack.Sequence
	return nil
}
