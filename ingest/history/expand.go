package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

// Domain is that of the articles of items that are only counted. No article
// of the world has it.
const Domain = "backfill.invalid"

// unknownSource is the source of executions that name none.
const unknownSource = "unknown"

// Expander turns rows into events. Rows have to come in the order in which
// Read returns them, those of one time all, for invariant 2.
type Expander struct {
	table  Table
	at     time.Time
	seen   map[[16]byte]struct{} // articles of rows of that time, and their channels
	record event.Record
}

// NewExpander returns an expander for rows of a table.
func NewExpander(t Table) *Expander { return &Expander{table: t, seen: map[[16]byte]struct{}{}} }

// Event is an event of a row.
type Event struct {
	Stage   string
	At      time.Time
	URLHash [sha256.Size]byte
	Message client.Message
}

// draft is an event that is not encoded yet.
type draft struct {
	stage string
	url   string
	meta  map[string]any
}

// Expand calls yield for each event of a row, until it returns false. Stages
// for which want returns false are left out. The error is why the row, or the
// rest of it, becomes no event, such as an *event.Invalid.
func (x *Expander) Expand(row *Row, want func(stage string) bool, yield func(Event) bool) error {
	if x.table.Counts() {
		return x.items(row, want, yield)
	}
	again := x.again(row)
	for _, d := range x.table.drafts(row) {
		if !want(d.stage) {
			continue
		}
		e, err := x.encode(row, d, again)
		if err != nil {
			return err
		}
		if !yield(e) {
			return nil
		}
	}
	return nil
}

func (x *Expander) items(row *Row, want func(stage string) bool, yield func(Event) bool) error {
	for _, stage := range x.table.Stages {
		if !want(stage) {
			continue
		}
		for n := int64(1); n <= row.Items(stage); n++ {
			e, err := x.Item(row, stage, n)
			if err != nil {
				return err
			}
			if !yield(e) {
				return nil
			}
		}
	}
	return nil
}

// Items is an execution's number of items of a stage.
func (r *Row) Items(stage string) int64 {
	if stage == "crawled" {
		return r.Crawled
	}
	return r.Indexed
}

// Item returns the event of an execution's n-th item of a stage, from 1.
func (x *Expander) Item(row *Row, stage string, n int64) (Event, error) {
	return x.encode(row, draft{stage, ItemURL(row.ID, n), map[string]any{"backfilled": true, "counted_only": true}},
		false)
}

// ItemURL is the URL of an execution's n-th item, from 1.
func ItemURL(execution string, n int64) string {
	return "https://" + Domain + "/job_executions/" + url.PathEscape(execution) + "/" + strconv.FormatInt(n, 10)
}

func classificationEvents(r *Row) []draft {
	meta := map[string]any{"backfilled": true}
	for name, text := range r.fields {
		meta[name] = json.RawMessage(text)
	}
	return []draft{{"classified", r.URL, meta}}
}

// publicationEvents are two of one time: they were one step.
func publicationEvents(r *Row) []draft {
	routed, published := map[string]any{"backfilled": true}, map[string]any{"backfilled": true}
	for name, text := range r.fields {
		switch name {
		case "topics":
			routed["matched_topics"] = json.RawMessage(text)
		case "channel":
			routed[name], published[name] = json.RawMessage(text), json.RawMessage(text)
		default:
			routed[name] = json.RawMessage(text)
		}
	}
	return []draft{{"routed", r.URL, routed}, {"published", r.URL, published}}
}

// again tells whether a row of this URL, channel and time has come before.
func (x *Expander) again(r *Row) bool {
	if !r.At.Equal(x.at) {
		x.at = r.At
		clear(x.seen)
	}
	var channel string // what is no text is none, as for package event
	_ = json.Unmarshal([]byte(r.fields["channel"]), &channel)
	sum := sha256.Sum256(append(hashOf(r), channel...))
	id := [16]byte(sum[:16])
	_, again := x.seen[id]
	x.seen[id] = struct{}{}
	return again
}

// hashOf is the event's url_hash.
func hashOf(r *Row) []byte {
	sum := sha256.Sum256([]byte(cmp.Or(r.CanonicalURL, r.URL)))
	return sum[:]
}

func (x *Expander) encode(row *Row, d draft, again bool) (Event, error) {
	e := event.Event{
		ArticleURL: d.url, CanonicalURL: row.CanonicalURL, SourceName: row.SourceName, Stage: d.stage,
		OccurredAt: row.At, ServiceName: x.table.Service, Metadata: d.meta,
	}
	if e.SourceName == "" {
		e.SourceName = sourceOf(d.url)
	}
	if again {
		e.IdempotencyKey = fmt.Sprintf("%s:%s:%s:%s:%s", e.ServiceName, d.stage, hex.EncodeToString(hashOf(row)[:4]),
			row.At.Format(time.RFC3339Nano), row.ID)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return Event{}, fmt.Errorf("marshal the event: %w", err)
	}
	if invalid := event.Decode(data, &x.record); invalid != nil {
		return Event{}, invalid
	}
	return Event{Stage: d.stage, At: row.At, URLHash: x.record.URLHash, Message: client.EventMessage(&x.record, data)},
		nil
}

// sourceOf is the source of a row that names none: the URL's host.
func sourceOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Hostname() == Domain {
		return unknownSource
	}
	return strings.ToLower(u.Hostname())
}
