package batches

import (
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
	// Details is JSON, and nil where the item has none.
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
func ReadItem(text []byte) Outcome {
	i := itemFields{}
	if err := i.read(text); err != nil {
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
type itemFields struct{ own, meta map[string]json.RawMessage }

func (i *itemFields) read(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("the item must be valid UTF-8")
	}
	switch err := json.Unmarshal(text, &i.own); {
	case err != nil:
		return fmt.Errorf("the item must be a JSON object: %w", err)
	case i.own == nil: // null
		return errors.New("the item must be a JSON object")
	case depth(text) > MaxDepth:
		return fmt.Errorf("the item must have objects and lists at most %d deep in each other", MaxDepth)
	}
	if json.Unmarshal(i.own["meta"], &i.meta) != nil {
		i.meta = nil
	}
	return nil
}

// value returns what a field is; nil: nothing is said of it.
func (i *itemFields) value(name string) json.RawMessage {
	for _, members := range [...]map[string]json.RawMessage{i.own, i.meta} {
		if v := members[name]; v != nil && string(v) != "null" {
			return v
		}
	}
	return nil
}

// text returns a field as text: of what is no string, its JSON.
func (i *itemFields) text(name string) (text string) {
	value := i.value(name)
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
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
