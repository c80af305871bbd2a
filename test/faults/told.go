package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// told is an event in the words of its first sighting: what each column of its
// row has to say. It is read anew here, so as to agree with the program by the
// contract alone.
type told struct {
	words
	fact     *fact
	seq      uint64 // of the first sighting
	received int64  // by the stream, Unix nanoseconds
	at       int64  // when it happened, likewise
	hash     string // of the article, in hexadecimal
	domain   string
	meta     meta
}

// words are the fields of an event as it was sent.
type words struct {
	URL       string          `json:"article_url"`
	Canonical string          `json:"canonical_url"`
	Source    string          `json:"source_name"`
	Stage     string          `json:"stage"`
	Service   string          `json:"service_name"`
	Key       string          `json:"idempotency_key"`
	Trace     string          `json:"trace_id"`
	At        time.Time       `json:"occurred_at"`
	Version   uint16          `json:"metadata_schema_version"`
	Metadata  json.RawMessage `json:"metadata"`
}

// meta is what views take from an event's metadata. What is of another type is
// absent.
type meta struct {
	quality                             *float64
	topics                              []string
	model, content, channel             string
	reclassified, duplicate, backfilled bool
}

// sighting is a message on the stream.
type sighting struct {
	body string
	at   time.Time // when the stream received it
}

func tell(f *fact, seq uint64, s sighting) (*told, error) {
	e := &told{fact: f, seq: seq, received: s.at.UnixNano(), words: words{Version: 1}}
	if err := json.Unmarshal([]byte(s.body), &e.words); err != nil {
		return nil, fmt.Errorf("read event %d: %w", seq, err)
	}
	host, err := url.Parse(f.article)
	if err != nil {
		return nil, fmt.Errorf("read event %d: %w", seq, err)
	}
	e.at, e.hash, e.domain = e.At.UnixNano(), hex.EncodeToString(f.hash[:]), strings.ToLower(host.Hostname())
	if e.meta, err = readMeta(e.Metadata); err != nil {
		return nil, fmt.Errorf("read event %d: %w", seq, err)
	}
	return e, nil
}

func readMeta(text json.RawMessage) (m meta, err error) {
	var fields map[string]any
	if len(text) > 0 {
		err = json.Unmarshal(text, &fields)
	}
	if n, is := fields["quality_score"].(float64); is {
		m.quality = &n
	}
	m.topics = readTopics(fields["topics"])
	m.model, _ = fields["model_version"].(string)
	m.content, _ = fields["content_type"].(string)
	m.channel, _ = fields["channel"].(string)
	m.reclassified, _ = fields["is_reclassification"].(bool)
	m.duplicate, _ = fields["is_duplicate"].(bool)
	m.backfilled, _ = fields["backfilled"].(bool)
	return m, err
}

// readTopics reads a list of texts; one with anything else in it is absent.
func readTopics(value any) (topics []string) {
	list, _ := value.([]any)
	for _, v := range list {
		topic, is := v.(string)
		if !is {
			return nil
		}
		topics = append(topics, topic)
	}
	return topics
}

// article64 is the first 64 bits of the hash of an article, by which sets tell
// articles apart.
func (f *fact) article64() uint64 { return binary.BigEndian.Uint64(f.hash[:8]) }

// key is the idempotency key, as sent or as computed.
func (e *told) key() string { return strings.TrimSuffix(e.fact.msgID, "/"+e.hash) }

// eventColumns is what is asked of the events table for columns to compare
// with. Topics have no bar in them.
const eventColumns = `lower(hex(identity)), seq, toUnixTimestamp64Nano(occurred_at), toUnixTimestamp64Nano(received_at),
	stage, source_name, service_name, domain, article_url, lower(hex(article_hash)), url_hash, canonical_url,
	trace_id, idempotency_key, metadata, metadata_schema_version, ifNull(toString(quality_score), ''),
	arrayStringConcat(arrayMap(t -> toString(t), topics), '|'), model_version, content_type, channel,
	toUInt8(is_reclassification), toUInt8(is_duplicate), toUInt8(backfilled)`

// eventNames are the names of these columns.
const eventNames = `identity seq occurred_at received_at stage source_name service_name domain article_url article_hash
	url_hash
	canonical_url trace_id idempotency_key metadata metadata_schema_version quality_score topics model_version
	content_type channel
	is_reclassification is_duplicate backfilled`

// columns are the texts of eventColumns.
func (e *told) columns() []string {
	quality := ""
	if e.meta.quality != nil {
		quality = decimal(*e.meta.quality)
	}
	return []string{
		hex.EncodeToString([]byte(e.fact.id)), fmt.Sprint(e.seq), fmt.Sprint(e.at), fmt.Sprint(e.received),
		e.Stage, e.Source, e.Service, e.domain, e.URL, e.hash, e.hash, e.Canonical,
		e.Trace, e.Key, string(e.Metadata), fmt.Sprint(e.Version), quality,
		strings.Join(e.meta.topics, "|"), e.meta.model, e.meta.content, e.meta.channel,
		fmt.Sprint(btoi(e.meta.reclassified)), fmt.Sprint(btoi(e.meta.duplicate)), fmt.Sprint(btoi(e.meta.backfilled)),
	}
}

// decimal writes a number as the database does: in full, without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func btoi(is bool) int {
	if is {
		return 1
	}
	return 0
}
