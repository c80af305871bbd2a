package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/object"
)

// NATS holds objects in the NATS Object Store. Reading an object compares it with its digest,
// and makes no bucket.
type NATS struct {
	js       jetstream.JetStream
	replicas int        // of the buckets that it makes
	making   sync.Mutex // is held by who makes a bucket
}

// NewNATS is the storage behind a connection. Buckets that it makes have so many replicas.
func NewNATS(js jetstream.JetStream, replicas int) *NATS { return &NATS{js: js, replicas: replicas} }

// Open implements Storage.
func (n *NATS) Open(ctx context.Context, o object.Name) (Object, error) {
	bucket, err := n.js.ObjectStore(ctx, o.Bucket)
	if err != nil {
		return nil, missingInNATS(err)
	}
	result, err := bucket.Get(watched{ctx}, o.Key)
	for tries := 0; errors.Is(err, jetstream.ErrObjectNotFound) && n.has(ctx, o); tries++ {
		if tries == mostTries {
			return nil, fmt.Errorf("open object %s: the copies of its bucket lag behind", o)
		}
		time.Sleep(triesEvery)
		result, err = bucket.Get(watched{ctx}, o.Key)
	}
	if err != nil {
		return nil, missingInNATS(err)
	}
	info, err := result.Info()
	if err == nil && (info.Bucket != o.Bucket || info.Name != o.Key) {
		err = fmt.Errorf("%w: it is a link to %s/%s", ErrMissing, info.Bucket, info.Name)
	}
	if err != nil {
		return nil, errors.Join(err, result.Close())
	}
	return &natsObject{ObjectResult: result, ctx: ctx, bucket: bucket, opened: info}, nil
}

// Any copy of a bucket in a cluster says what there is, also one that lags behind. It is asked again so often.
const (
	mostTries  = 100
	triesEvery = 50 * time.Millisecond
)

// has tells whether the leader of a bucket knows of an object.
func (n *NATS) has(ctx context.Context, o object.Name) bool {
	there, _, err := (&upload{js: n.js, object: o}).look(ctx)
	return err == nil && there != nil
}

// watched is a context that seems to end soon, and does not. The client of NATS waits for a
// chunk until the deadline of its context, whether that ends before or not.
type watched struct{ context.Context }

func (watched) Deadline() (time.Time, bool) { return time.Now().Add(time.Second / 4), true }

func missingInNATS(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrObjectNotFound),
		errors.Is(err, jetstream.ErrInvalidStoreName), errors.Is(err, jetstream.ErrCantGetBucket):
		return fmt.Errorf("%w: %w", ErrMissing, err)
	case errors.Is(err, jetstream.ErrBadObjectMeta):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

type natsObject struct {
	jetstream.ObjectResult
	ctx    context.Context
	bucket jetstream.ObjectStore
	opened *jetstream.ObjectInfo
	whole  bool // all of it was read, and its digest is right
}

// Read implements Object.
func (o *natsObject) Read(p []byte) (int, error) {
	n, err := o.ObjectResult.Read(p)
	for n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && o.ctx.Err() == nil {
		n, err = o.ObjectResult.Read(p)
	}
	if errors.Is(err, jetstream.ErrDigestMismatch) || errors.Is(err, jetstream.ErrInvalidDigestFormat) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	o.whole = errors.Is(err, io.EOF)
	return n, err
}

// Metadata implements Object.
func (o *natsObject) Metadata() map[string]string { return o.opened.Metadata }

// Size implements Object.
func (o *natsObject) Size() int64 { return int64(min(o.opened.Size, math.MaxInt64)) }

// Changed implements Object. The chunks of a version that was replaced are deleted, so that
// reading it waits for what does not come.
func (o *natsObject) Changed(ctx context.Context) (bool, error) {
	if o.whole {
		return false, nil
	}
	now, err := o.bucket.GetInfo(ctx, o.opened.Name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return now.NUID != o.opened.NUID, nil
}
