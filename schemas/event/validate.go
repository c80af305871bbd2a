package event

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

// Stages is a pipeline's stages in their order. The zero value has none.
type Stages struct {
	names []string
	index map[string]int
}

// DefaultStages is the pipeline of the event service's specification.
const DefaultStages = "crawled,indexed,classified,routed,published"

// MaxStages bounds the length of a pipeline.
const MaxStages = 64

// ParseStages reads a comma-separated list. A stage is a part of a subject, so
// its name is made of lower-case letters, digits, "_" and "-".
func ParseStages(list string) (Stages, error) {
	s := Stages{index: map[string]int{}}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			return Stages{}, fmt.Errorf("stages: %q: a name has 1 to 64 lower-case letters, digits, '_' or '-'", name)
		}
		if _, ok := s.index[name]; ok {
			return Stages{}, fmt.Errorf("stages: %q is listed twice", name)
		}
		s.index[name] = len(s.names)
		s.names = append(s.names, name)
	}
	if len(s.names) > MaxStages {
		return Stages{}, fmt.Errorf("stages: %d are listed, at most %d can be", len(s.names), MaxStages)
	}
	return s, nil
}

// Names returns the stages in order. The caller must not change the slice.
func (s Stages) Names() []string { return s.names }

// Index returns a stage's place in the pipeline, from 0.
func (s Stages) Index(name []byte) (int, bool) {
	i, ok := s.index[string(name)]
	return i, ok
}

func (s Stages) unknown() *Invalid {
	return &Invalid{"stage", "stage_unknown", "must be one of " + strings.Join(s.names, ", ")}
}

// Validate checks a decoded record against the rules that depend on the
// pipeline and on the time at which the stream received the event. With
// backfill, an event that says so in its metadata may be of any age.
func (r *Record) Validate(stages Stages, received time.Time, backfill bool) *Invalid {
	if _, ok := stages.Index(r.Stage); !ok {
		return stages.unknown()
	}
	return r.checkTime(received, backfill)
}

func (r *Record) checkTime(received time.Time, backfill bool) *Invalid {
	switch {
	case r.OccurredAt > received.UnixNano()+int64(ClockSkew):
		return errFuture
	case r.Meta.Backfilled && !backfill:
		return errBackfill
	}
	return r.CheckAge(received)
}

// CheckAge is the rule of Validate that an event which does not say that it is
// backfilled is at most MaxAge old.
func (r *Record) CheckAge(received time.Time) *Invalid {
	if r.OccurredAt < received.UnixNano()-int64(MaxAge) && !r.Meta.Backfilled {
		return errTooOld
	}
	return nil
}

// Late tells whether the event arrived long enough after it happened to be
// worth a warning. A backfilled event is late by intention.
func (r *Record) Late(received time.Time) bool {
	return !r.Meta.Backfilled && received.UnixNano()-r.OccurredAt > int64(LateAfter)
}

// check applies the rules that the record alone decides, and derives the
// URL's hash and domain.
func (r *Record) check() {
	r.checkNames()
	url, field := r.ArticleURL, "article_url"
	host := r.checkURL(field, url)
	if len(r.CanonicalURL) > 0 {
		url, field = r.CanonicalURL, "canonical_url"
		host = r.checkURL(field, url)
	}
	if len(r.Metadata) > MaxMetadata {
		r.fault(errMetadataSize)
	}
	if len(r.faults) > 0 {
		return
	}
	r.URLHash = sha256.Sum256(url)
	r.domain = appendLower(r.domain[:0], host)
	r.Domain = r.domain
}

// checkURL returns the host of a URL.
func (r *Record) checkURL(field string, url []byte) (host []byte) {
	host, ok := hostOf(url)
	switch {
	case !ok:
		r.fault(badURL(field))
	case len(url) > MaxURL:
		r.fault(tooLong(field, MaxURL))
	}
	return host
}

func (r *Record) checkNames() {
	if len(r.ArticleURL) == 0 {
		r.fault(missing("article_url"))
	}
	r.fault(checkName("source_name", r.SourceName, MaxName, true))
	if len(r.Stage) == 0 {
		r.fault(missing("stage"))
	}
	r.fault(checkName("service_name", r.ServiceName, MaxName, true))
	r.fault(checkName("idempotency_key", r.IdempotencyKey, MaxKey, false))
	r.fault(checkName("trace_id", r.TraceID, MaxName, false))
}

func checkName(field string, value []byte, limit int, required bool) *Invalid {
	switch {
	case len(value) == 0 && required:
		return missing(field)
	case len(value) > limit:
		return tooLong(field, limit)
	case hasControl(value):
		return control(field)
	}
	return nil
}

func hasControl(s []byte) bool {
	for _, c := range s {
		if c < 0x20 || c == 0x7f {
			return true
		}
	}
	return false
}

// hostOf returns the host of an absolute http(s) URL, without port and
// brackets. It is laxer than net/url about what follows the host, because
// crawled URLs hold broken escapes, and stricter about spaces.
func hostOf(url []byte) ([]byte, bool) {
	rest, ok := cutScheme(url)
	if !ok || hasControl(url) || bytes.IndexByte(url, ' ') >= 0 {
		return nil, false
	}
	if i := bytes.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := bytes.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	if len(rest) > 0 && rest[0] == '[' {
		end := bytes.IndexByte(rest, ']')
		if end < 2 || (end+1 < len(rest) && rest[end+1] != ':') {
			return nil, false
		}
		return rest[1:end], true
	}
	if i := bytes.IndexByte(rest, ':'); i >= 0 {
		rest = rest[:i]
	}
	return rest, len(rest) > 0
}

func cutScheme(url []byte) ([]byte, bool) {
	for _, scheme := range [...]string{"https://", "http://"} {
		if len(url) > len(scheme) && bytes.EqualFold(url[:len(scheme)], []byte(scheme)) {
			return url[len(scheme):], true
		}
	}
	return nil, false
}

// appendLower lowers ASCII letters only: other scripts have no host names but
// in their ASCII form, and are kept as they came.
func appendLower(dst, s []byte) []byte {
	for _, c := range s {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
