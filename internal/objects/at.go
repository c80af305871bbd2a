package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/object"
)

// At reads one version of an object that PutAs or Append has stored, from any place in it. It holds a few chunks, and is
// for one goroutine at a time. Nothing is compared with the digest of the object: callers have checksums of their own.
type At struct {
	ctx         context.Context
	bucket      jetstream.Stream
	subject     string
	size        int64
	first, last uint64 // sequences of its chunks
	held        []chunkAt
}

// chunkAt is a chunk, and where it is in the object.
type chunkAt struct {
	seq  uint64
	from int64
	data []byte
}

func (c chunkAt) end() int64 { return c.from + int64(len(c.data)) }

// heldChunks is how many chunks a reader holds, so that those who read at several places need not ask twice.
const heldChunks = 4

// At begins to read an object. Reading ends with ctx.
func (n *NATS) At(ctx context.Context, o object.Name) (*At, error) {
	a, err := n.at(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", o, err)
	}
	return a, nil
}

func (n *NATS) at(ctx context.Context, o object.Name) (*At, error) {
	limited, cancel := context.WithTimeout(ctx, Stall)
	defer cancel()
	store, err := n.js.ObjectStore(limited, o.Bucket)
	if err != nil {
		return nil, missingInNATS(err)
	}
	info, err := store.GetInfo(limited, o.Key)
	if err != nil {
		return nil, missingInNATS(err)
	}
	a := &At{ctx: ctx, subject: (&upload{object: o, id: info.NUID}).chunkSubject(), size: int64(info.Size)}
	if a.bucket, err = n.js.Stream(limited, "OBJ_"+o.Bucket); err != nil || a.size == 0 {
		return a, err
	}
	m, err := a.bucket.GetLastMsgForSubject(limited, a.subject)
	if err != nil {
		return nil, goneInNATS(err)
	}
	first, err := a.get(1)
	a.first, a.last = first.seq, m.Sequence
	return a, err
}

// goneInNATS is the error of a chunk that is not there.
func goneInNATS(err error) error {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("%w: a part of it is gone", ErrMissing)
	}
	return err
}

// Size is that of the object, in bytes.
func (a *At) Size() int64 { return a.size }

// ReadAt implements io.ReaderAt, but for concurrent calls.
func (a *At) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at >= a.size {
			return n, io.EOF
		}
		c, err := a.chunk(at)
		if err != nil {
			return n, fmt.Errorf("read an object at byte %d: %w", at, err)
		}
		n += copy(p[n:], c.data[at-c.from:])
	}
	return n, nil
}

// chunk returns the chunk that has a byte.
func (a *At) chunk(at int64) (chunkAt, error) {
	for i, c := range a.held {
		if c.from <= at && at < c.end() {
			copy(a.held[1:i+1], a.held[:i]) // the one that was read last is the first
			a.held[0] = c
			return c, nil
		}
	}
	c, err := a.find(at)
	if err == nil {
		a.held = append([]chunkAt{c}, a.held[:min(len(a.held), heldChunks-1)]...)
	}
	return c, err
}

// find asks for the chunk that has a byte. It looks where that should be if the chunks of the object are the only ones,
// and by halves where others lie between them.
func (a *At) find(at int64) (chunkAt, error) {
	for _, c := range a.held {
		if c.end() == at {
			next, err := a.get(c.seq + 1)
			if err == nil && next.from != at {
				err = fmt.Errorf("%w: it lacks bytes from %d", ErrDamaged, at)
			}
			return next, err
		}
	}
	low, high, from, end := a.first, a.last, int64(0), a.size
	for tries := 0; low <= high; tries++ {
		guess := low + (high-low)/2
		if tries < 3 && end > from {
			guess = low + uint64(float64(high-low)*float64(at-from)/float64(end-from))
		}
		c, err := a.get(guess)
		switch {
		case err != nil:
			return c, err
		case at >= c.end():
			low, from = c.seq+1, c.end()
		case at >= c.from:
			return c, nil
		default:
			high, end = guess-1, c.from
		}
	}
	return chunkAt{}, fmt.Errorf("%w: it lacks bytes from %d", ErrDamaged, at)
}

// get returns the first chunk of the object from a sequence on.
func (a *At) get(seq uint64) (c chunkAt, err error) {
	ctx, cancel := context.WithTimeout(a.ctx, Stall)
	defer cancel()
	m, err := a.bucket.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(a.subject))
	if err != nil {
		return c, goneInNATS(err)
	}
	end, err := strconv.ParseInt(m.Header.Get(sizeHeader), 10, 64)
	if err != nil || end < int64(len(m.Data)) || len(m.Data) == 0 {
		return c, fmt.Errorf("%w: the headers of a chunk cannot be read", ErrDamaged)
	}
	return chunkAt{m.Sequence, end - int64(len(m.Data)), m.Data}, nil
}
