package event

import (
	"crypto/sha256"
	"encoding/binary"
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
	text    []byte  // what is hashed
	scratch []byte  // a key to compare with
	decoder decoder // its buffer backs fields that hold escapes
	faults  []*Invalid
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
	TraceID            []byte // Record.TraceID has it, too, where the event itself names none
}

func (r *Record) reset() {
	*r = Record{
		MetadataSchemaVersion: 1,
		Meta:                  Metadata{QualityScore: math.NaN(), Topics: r.Meta.Topics[:0]},
		domain:                r.domain,
		text:                  r.text,
		scratch:               r.scratch,
		decoder:               r.decoder,
		faults:                r.faults[:0],
	}
}

// Time returns OccurredAt as a time in UTC.
func (r *Record) Time() time.Time { return time.Unix(0, r.OccurredAt).UTC() }

// AppendKey appends the idempotency key: the publisher's own, or
// {service}:{stage}:{first 8 of url_hash}:{occurred_at}, with {model_version}:
// before the time for a reclassification, and then {channel}@ where the metadata
// names one. occurred_at is RFC 3339 in UTC without trailing zeros in the
// fraction. The package comment says more of channels.
func (r *Record) AppendKey(dst []byte) []byte {
	if len(r.IdempotencyKey) > 0 {
		return append(dst, r.IdempotencyKey...)
	}
	return r.appendComputed(dst, r.Meta.Channel)
}

// appendComputed appends the key that is computed for a channel; without one it
// is the specification's.
func (r *Record) appendComputed(dst, channel []byte) []byte {
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
	if len(channel) > 0 {
		dst = appendChannel(dst, channel)
		dst = append(dst, '@')
	}
	return appendTime(dst, r.OccurredAt)
}

// appendChannel appends a channel so that it holds no colon: what stands before
// the last colon is the model's version then, whatever that holds.
func appendChannel(dst, channel []byte) []byte {
	for _, c := range channel {
		switch c {
		case ':':
			dst = append(dst, "%3A"...)
		case '%':
			dst = append(dst, "%25"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// appendIdentityKey appends the key that the identity is made of.
func (r *Record) appendIdentityKey(dst []byte) []byte {
	if len(r.IdempotencyKey) > 0 && (len(r.Meta.Channel) == 0 || !r.sentComputed()) {
		return append(dst, r.IdempotencyKey...)
	}
	return r.appendComputed(dst, r.Meta.Channel)
}

// sentComputed tells whether the publisher's key is the specification's, which
// some clients compute by themselves.
func (r *Record) sentComputed() bool {
	r.scratch = r.appendComputed(r.scratch[:0], nil)
	return string(r.scratch) == string(r.IdempotencyKey)
}

// AppendMessageID appends the identity as text, {key}/{url_hash}. Stock clients
// may send it as the Nats-Msg-Id header.
func (r *Record) AppendMessageID(dst []byte) []byte {
	dst = r.appendIdentityKey(dst)
	dst = append(dst, '/')
	return hex.AppendEncode(dst, r.URLHash[:])
}

// MessageID returns what AppendMessageID appends.
func (r *Record) MessageID() string { return string(r.AppendMessageID(nil)) }

// Identity is the first 128 bits of the SHA-256 of an event's message id. Two
// events with one Identity are the same event if their Fingerprints are equal
// too, and else a conflict.
type Identity [16]byte

// Identity returns the event's identity.
func (r *Record) Identity() Identity {
	r.text = r.AppendMessageID(r.text[:0])
	sum := sha256.Sum256(r.text)
	return Identity(sum[:16])
}

// Fingerprint is the first 64 bits, little-endian, of the SHA-256 of an event's
// stage, a zero byte, and its service name. 0 stands for one that is not known.
type Fingerprint uint64

// Fingerprint returns the event's fingerprint, never 0.
func (r *Record) Fingerprint() Fingerprint {
	r.text = append(r.text[:0], r.Stage...)
	r.text = append(r.text, 0)
	r.text = append(r.text, r.ServiceName...)
	sum := sha256.Sum256(r.text)
	return max(1, Fingerprint(binary.LittleEndian.Uint64(sum[:8])))
}

// Conflicts tells whether events with one identity and these fingerprints are
// different events.
func (f Fingerprint) Conflicts(other Fingerprint) bool { return f != other && f != 0 && other != 0 }

// ArticleID returns the first 64 bits of the URL's hash, big-endian: uniform,
// and what sketches of distinct articles are made of.
func (r *Record) ArticleID() uint64 {
	h := r.URLHash
	return uint64(h[0])<<56 | uint64(h[1])<<48 | uint64(h[2])<<40 | uint64(h[3])<<32 |
		uint64(h[4])<<24 | uint64(h[5])<<16 | uint64(h[6])<<8 | uint64(h[7])
}
