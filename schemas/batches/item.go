package batches

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-io/millrace/schemas/instant"
)

// Bounds of an item. What is beyond them could not be found or shown again.
const (
	MaxContentID = 4096 // bytes
	MaxDepth     = 128  // of objects and lists in each other
	// Years of crawled_at: the tables have times in nanoseconds.
	firstYear, lastYear = 1900, 2261
)

// Statuses of fetching that items may have.
const (
	Success = "success"
	Failure = "error"
)

// Outcome is what became of an item.
type Outcome struct {
	// ContentID is empty for what has none that can be read.
	ContentID string
	// Status is what the item says, whether it is one of the statuses or not.
	Status string
	// Category, Code and Message are those of an error. Category is empty for a success.
	Category Category
	Code     string
	// Message is what the item says about its error, or which rule of items it breaks.
	Message string
	// Details is JSON, a part of the item, and nil where that has none.
	Details json.RawMessage

	Permalink, TaskType, Keyword, Pipeline string
	// CrawledAt is zero where the item does not say, or says what is no time.
	CrawledAt time.Time
	// BadTime tells that it says what is no time.
	BadTime bool
}

// ReadItem returns the outcome of the item at one position of a batch, whether or not text
// is valid JSON. It reads each field from the item, or else from its member meta, where
// crawlers put what they know about the crawl.
func ReadItem(text []byte) Outcome { return readItem(text, json.Valid(text)) }

func readItem(text []byte, valid bool) Outcome {
	i := itemFields{}
	if err := i.read(text, valid); err != nil {
		return Outcome{Category: Parsing, Code: ParseError, Message: err.Error()}
	}
	o := Outcome{
		Status: i.text("fetch_status"), Code: i.text("error_code"), Message: i.text("fetch_error"),
		Permalink: i.text("permalink"), TaskType: i.text("task_type"), Keyword: i.text("keyword_source"),
		Pipeline: i.text("pipeline_version"), Details: i.value("error_details"),
	}
	o.CrawledAt, o.BadTime = i.time("crawled_at")
	id, err := i.contentID()
	o.ContentID = id
	switch {
	case err != nil || (o.Status != Success && o.Status != Failure):
		o.Category, o.Code, o.Message = Parsing, ParseError, rules(statusRule(o.Status), err)
	case o.Status == Failure && o.Code == "":
		o.Code = UnknownError
		fallthrough
	case o.Status == Failure:
		o.Category = CategoryOf(o.Code)
	}
	return o
}

// OK tells whether the item was fetched.
func (o Outcome) OK() bool { return o.Category == "" }

// rules says which rules are broken, of those that may be.
func rules(maybe ...error) string {
	var broken []string
	for _, err := range maybe {
		if err != nil {
			broken = append(broken, err.Error())
		}
	}
	return strings.Join(broken, "; ")
}

func statusRule(status string) error {
	switch status {
	case Success, Failure:
		return nil
	case "":
		return errors.New("fetch_status: is required, and must be success or error")
	}
	return fmt.Errorf("fetch_status: must be success or error, not %.80q", status)
}

// itemFields are the members of an item, and those of its member meta.
type itemFields struct{ own, meta known }

// known are the members that are read; nil: it is not there.
type known struct {
	contentID, id, status, code, message, details, permalink, task, keyword, pipeline, crawled, meta json.RawMessage
}

// at returns where the member of a name is, or nil if it is not read.
func (k *known) at(name string) *json.RawMessage {
	switch name {
	case "content_id":
		return &k.contentID
	case "id":
		return &k.id
	case "fetch_status":
		return &k.status
	case "error_code":
		return &k.code
	case "fetch_error":
		return &k.message
	case "error_details":
		return &k.details
	case "permalink":
		return &k.permalink
	case "task_type":
		return &k.task
	case "keyword_source":
		return &k.keyword
	case "pipeline_version":
		return &k.pipeline
	case "crawled_at":
		return &k.crawled
	case "meta":
		return &k.meta
	}
	return nil
}

// set notes a member. Of several with one name the last one counts.
func (k *known) set(name string, value []byte) {
	if at := k.at(name); at != nil {
		*at = value
	}
}

func (i *itemFields) read(text []byte, valid bool) error {
	switch text = bytes.TrimSpace(text); {
	case !utf8.Valid(text):
		return errors.New("the item must be valid UTF-8")
	case !valid:
		return fmt.Errorf("the item must be a JSON object: %w", json.Unmarshal(text, new(json.RawMessage)))
	case text[0] != '{':
		return errors.New("the item must be a JSON object")
	case members(text, i.own.set) > MaxDepth:
		return fmt.Errorf("the item must have objects and lists at most %d deep in each other", MaxDepth)
	}
	if bytes.HasPrefix(i.own.meta, []byte("{")) {
		members(i.own.meta, i.meta.set)
	}
	return nil
}

// value returns what a field is; nil: nothing is said of it.
func (i *itemFields) value(name string) json.RawMessage {
	for _, k := range [...]*known{&i.own, &i.meta} {
		if v := *k.at(name); v != nil && string(v) != "null" {
			return v
		}
	}
	return nil
}

// text returns a field as text: of what is no string, its JSON.
func (i *itemFields) text(name string) string {
	value := i.value(name)
	if bytes.HasPrefix(value, []byte(`"`)) {
		return stringOf(value)
	}
	return string(value)
}

func (i *itemFields) time(name string) (at time.Time, bad bool) {
	text := i.text(name)
	if text == "" {
		return time.Time{}, false
	}
	at, err := instant.Parse(text)
	if err != nil || at.Year() < firstYear || at.Year() > lastYear {
		return time.Time{}, true
	}
	return at, false
}

// contentID returns the first of the item's ids that is not empty.
func (i *itemFields) contentID() (string, error) {
	for _, name := range [...]string{"content_id", "id"} {
		value := i.value(name)
		if value == nil || string(value) == `""` {
			continue
		}
		id := i.text(name)
		switch {
		case value[0] != '"' && !isWhole(value):
			return "", fmt.Errorf("%s: must be a string or a whole number", name)
		case len(id) > MaxContentID:
			return "", fmt.Errorf("%s: must be at most %d bytes", name, MaxContentID)
		case strings.ContainsFunc(id, unicode.IsControl):
			return "", fmt.Errorf("%s: must not contain control characters", name)
		}
		return id, nil
	}
	return "", errors.New("content_id: is required")
}
