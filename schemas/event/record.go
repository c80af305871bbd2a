package event

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"
)

// Record is an event decoded from a message. Its byte slices point into that
// message or into the Record's own scratch space, and are valid until the
// message is changed or the Record is decoded into again.
type Record struct {
	ArticleURL     []byte
	SourceName     []byte
	Stage          []byte
	ServiceName    []byte
	IdempotencyKey []byte // as the publisher sent it; empty: computed, see AppendKey
	TraceID        []byte
	CanonicalURL   []byte
	Metadata       []byte // the JSON object as sent; empty when there is none
	// OccurredAt is in nanoseconds since 1970-01-01T00:00:00Z.
	OccurredAt            int64
	MetadataSchemaVersion uint16

	// URLHash and Domain are of CanonicalURL, or of ArticleURL without one.
	URLHash [sha256.Size]byte
	Domain  []byte // lower case, without port

	Meta Metadata

	domain  []byte  // backs Domain
	scratch []byte  // for the message id
	decoder decoder // its buffer backs fields that hold escapes
}

// Metadata holds those metadata fields that views use. A field of another
// type than expected counts as absent; the text in Record.Metadata keeps it.
type Metadata struct {
	QualityScore       float64 // NaN when absent
	Topics             [][]byte
	ModelVersion       []byte
	ContentType        []byte
	Channel            []byte
	IsReclassification bool
	IsDuplicate        bool
	Backfilled         bool
}

func (r *Record) reset() {
	*r = Record{
		MetadataSchemaVersion: 1,
		Meta:                  Metadata{QualityScore: math.NaN(), Topics: r.Meta.Topics[:0]},
		domain:                r.domain,
		scratch:               r.scratch,
		decoder:               r.decoder,
	}
}

// Time returns OccurredAt as a time in UTC.
func (r *Record) Time() time.Time { return time.Unix(0, r.OccurredAt).UTC() }

// AppendKey appends the idempotency key: the publisher's own, or
// {service}:{stage}:{first 8 of url_hash}:{occurred_at}, with
// :{model_version} before the time for a reclassification. occurred_at is
// RFC 3339 in UTC without trailing zeros in the fraction.
func (r *Record) AppendKey(dst []byte) []byte {
	if len(r.IdempotencyKey) > 0 {
		return append(dst, r.IdempotencyKey...)
	}
	dst = append(dst, r.ServiceName...)
	dst = append(dst, ':')
	dst = append(dst, r.Stage...)
	dst = append(dst, ':')
	dst = hex.AppendEncode(dst, r.URLHash[:4])
	dst = append(dst, ':')
	if r.Meta.IsReclassification && len(r.Meta.ModelVersion) > 0 {
		dst = append(dst, r.Meta.ModelVersion...)
		dst = append(dst, ':')
	}
	return appendTime(dst, r.OccurredAt)
}

// AppendMessageID appends the identity as text, {key}/{url_hash}: the value
// of the Nats-Msg-Id header.
func (r *Record) AppendMessageID(dst []byte) []byte {
	dst = r.AppendKey(dst)
	dst = append(dst, '/')
	return hex.AppendEncode(dst, r.URLHash[:])
}

// MessageID returns what AppendMessageID appends.
func (r *Record) MessageID() string { return string(r.AppendMessageID(nil)) }

// Identity is the first 128 bits of the SHA-256 of an event's message id. Two
// events with one Identity are the same event.
type Identity [16]byte

// Identity returns the event's identity.
func (r *Record) Identity() Identity {
	r.scratch = r.AppendMessageID(r.scratch[:0])
	sum := sha256.Sum256(r.scratch)
	return Identity(sum[:16])
}

// ArticleID returns the first 64 bits of the URL's hash, big-endian: uniform,
// and what sketches of distinct articles are made of.
func (r *Record) ArticleID() uint64 {
	h := r.URLHash
	return uint64(h[0])<<56 | uint64(h[1])<<48 | uint64(h[2])<<40 | uint64(h[3])<<32 |
		uint64(h[4])<<24 | uint64(h[5])<<16 | uint64(h[6])<<8 | uint64(h[7])
}
