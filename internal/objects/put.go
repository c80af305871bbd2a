package objects

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/millrace-io/millrace/schemas/object"
	"github.com/millrace-io/millrace/schemas/stream"
)

// MaxBuckets is how many buckets there may be for Put to make another one: each is a stream
// of NATS. Where several processes make buckets at the same moment, there may be as many
// more as there are processes.
const MaxBuckets = 100

// Kinds of errors of Put, beside those of reading.
var (
	// ErrConflict: there is an object of this name with other content.
	ErrConflict = errors.New("another object has this name")
	// ErrTooManyBuckets: there are MaxBuckets already.
	ErrTooManyBuckets = fmt.Errorf("there are %d buckets already", MaxBuckets)
	// ErrBucketName: NATS can have no bucket of this name.
	ErrBucketName = errors.New("a bucket of NATS has letters, digits, hyphens and underscores in its name")
)

// chunkSize is below what any server of NATS takes in one message.
const chunkSize = 512 << 10

// Stored is an object that Put has found or made.
type Stored struct {
	Size   int64
	SHA256 [sha256.Size]byte
	Made   bool // it was not there before
}

// Put stores an object of at most MaxSize bytes, and makes its bucket if there is none. An
// object of this name with the same content is found, and one with other content is an
// ErrConflict: of several callers at once, one makes the object. After any other error the
// same call may be made again.
//
// The client's own Put would overwrite in silence. This one writes what the client reads,
// by the same contract (ADR-20 of NATS): chunks, and then a message that describes them,
// which is published on the condition that nobody else has.
func (n *NATS) Put(ctx context.Context, o object.Name, from io.Reader) (Stored, error) {
	return n.PutAs(ctx, o, nuid.Next(), MaxSize, from)
}

// PutAs is Put of an object of at most limit bytes, whose chunks have an id that the caller chooses,
// and uses once. Discard with this id deletes what a process leaves that dies in the middle.
func (n *NATS) PutAs(ctx context.Context, o object.Name, id string, limit int64, from io.Reader) (Stored, error) {
	stored, err := n.put(ctx, upload{js: n.js, object: o, id: id, limit: limit}, from)
	if err != nil {
		return stored, fmt.Errorf("put object %s: %w", o, err)
	}
	return stored, nil
}

func (n *NATS) put(ctx context.Context, u upload, from io.Reader) (Stored, error) {
	if err := n.open(ctx, &u); err != nil {
		return Stored{}, err
	}
	part := newPartial()
	if err := u.chunks(ctx, part, from); err != nil {
		return Stored{Size: part.Size}, errors.Join(err, u.discard(ctx))
	}
	return u.describe(ctx, part)
}

// open makes sure that there is the bucket of an upload.
func (n *NATS) open(ctx context.Context, u *upload) (err error) {
	if err := n.makeBucket(ctx, u.object.Bucket); err != nil {
		return err
	}
	if u.bucket, err = n.js.Stream(ctx, "OBJ_"+u.object.Bucket); err != nil {
		return fmt.Errorf("look at the bucket: %w", err)
	}
	return nil
}

// makeBucket makes sure that there is a bucket.
func (n *NATS) makeBucket(ctx context.Context, name string) error {
	_, err := n.js.ObjectStore(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return bucketName(err)
	}
	n.making.Lock()
	defer n.making.Unlock()
	names, have := n.js.ObjectStoreNames(ctx), 0
	for range names.Name() {
		have++
	}
	if err := names.Error(); err != nil {
		return fmt.Errorf("count the buckets: %w", err)
	}
	if have >= MaxBuckets && !own(name) {
		return ErrTooManyBuckets
	}
	_, err = n.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: name, Description: "objects that Millrace reads", Replicas: n.replicas, Compression: !packed(name),
	})
	if errors.Is(err, jetstream.ErrBucketExists) {
		return nil
	}
	return err
}

// own tells of a bucket of Millrace itself: no request can name one whose name begins so.
func own(name string) bool { return strings.HasPrefix(name, "_") }

// packed tells of a bucket of Millrace itself whose objects are compressed before they are put. A server that compresses
// writes each 8 MiB once more when they are there, and holds several times as much meanwhile: some 50 MB.
func packed(name string) bool { return own(name) && strings.HasSuffix(name, "_packed") }

// Discard deletes an object, and the chunks that were stored with an id, whether or not they became one.
func (n *NATS) Discard(ctx context.Context, o object.Name, id string) error {
	bucket, err := n.js.Stream(ctx, "OBJ_"+o.Bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	u := upload{js: n.js, bucket: bucket, object: o, id: id}
	for _, subject := range []string{u.metaSubject(), u.chunkSubject()} {
		if err == nil {
			err = purge(ctx, bucket, subject)
		}
	}
	if err != nil {
		return fmt.Errorf("discard object %s: %w", o, err)
	}
	return nil
}

// purgeStep is how many messages one request deletes at most.
const purgeStep = 32

// purge deletes the messages of a subject, some with each request: a server answers nobody else about streams while it deletes,
// which took 50 seconds for the 4,096 chunks of 2 GiB.
func purge(ctx context.Context, bucket jetstream.Stream, subject string) error {
	for {
		first, err := bucket.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) { // as one server sees it, which may lag behind the leader
			return bucket.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
		if err == nil {
			err = bucket.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(first.Sequence+purgeStep))
		}
		if err != nil {
			return err
		}
	}
}

func bucketName(err error) error {
	if errors.Is(err, jetstream.ErrInvalidStoreName) {
		return ErrBucketName
	}
	return err
}

// upload is an object on its way.
type upload struct {
	js     jetstream.JetStream
	bucket jetstream.Stream
	object object.Name
	id     string // of its chunks
	limit  int64  // bytes of the content
	keep   bool   // chunks stay when an attempt to describe them fails
}

func (u *upload) chunkSubject() string { return "$O." + u.object.Bucket + ".C." + u.id }

func (u *upload) metaSubject() string {
	return "$O." + u.object.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(u.object.Key))
}

// chunks stores what comes next of the content.
func (u *upload) chunks(ctx context.Context, part *Partial, from io.Reader) error {
	chunk := make([]byte, chunkSize)
	for {
		var n int
		var err error
		for n < len(chunk) && err == nil { // io.ReadFull has one error for a short chunk and for a source that was cut
			var more int
			more, err = from.Read(chunk[n:])
			n += more
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case part.Size+int64(n) > u.limit:
			return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, u.limit)
		case n > 0:
			if err := u.chunk(ctx, part, chunk[:n]); err != nil {
				return err
			}
		}
		if err != nil { // the end
			return nil
		}
	}
}

// describe publishes what makes an object of the chunks, unless there is one of this name.
// Where it does not learn whether that was stored, it leaves the chunks, which may be in use.
func (u *upload) describe(ctx context.Context, part *Partial) (Stored, error) {
	stored := Stored{Size: part.Size}
	part.digest.Sum(stored.SHA256[:0])
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{
			Name: u.object.Key, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize},
		},
		Bucket: u.object.Bucket, NUID: u.id, Size: uint64(stored.Size), Chunks: part.chunks,
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(stored.SHA256[:]),
	}
	there, after, err := u.look(ctx)
	if err != nil {
		return stored, errors.Join(err, u.discard(ctx))
	}
	if there == nil {
		failed := u.publish(ctx, info, after)
		if there, _, err = u.look(ctx); err != nil || there == nil {
			return stored, errors.Join(failed, err)
		}
	}
	switch {
	case there.NUID == u.id: // also where the answer to publish was lost
		stored.Made = true
		return stored, nil
	case there.Digest == info.Digest:
		return stored, u.discard(ctx)
	}
	return stored, errors.Join(ErrConflict, u.discard(ctx))
}

// described is what Put looks at in the message that describes an object.
type described struct {
	NUID    string `json:"nuid"`
	Digest  string `json:"digest"`
	Deleted bool   `json:"deleted"`
}

// look returns what is known of an object of this name, nil for none, and the sequence of
// the last message about it.
func (u *upload) look(ctx context.Context) (there *described, seq uint64, err error) {
	m, err := stream.GetLast(ctx, u.js, "OBJ_"+u.object.Bucket, u.metaSubject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("look for it: %w", err)
	}
	if err := json.Unmarshal(m.Data, &there); err != nil {
		return nil, 0, fmt.Errorf("look for it: %w", err)
	}
	if there.Deleted {
		there = nil
	}
	return there, m.Sequence, nil
}

// publish describes the object, if nobody has published about its name since seq.
func (u *upload) publish(ctx context.Context, info jetstream.ObjectInfo, seq uint64) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	meta := nats.NewMsg(u.metaSubject())
	meta.Data = text
	meta.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	_, err = u.js.PublishMsg(ctx, meta, jetstream.WithExpectLastSequencePerSubject(seq))
	return err
}

// discard deletes the chunks, also when the caller has gone.
func (u *upload) discard(ctx context.Context) error {
	if u.keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := purge(ctx, u.bucket, u.chunkSubject()); err != nil {
		return fmt.Errorf("discard the chunks: %w", err)
	}
	return nil
}
