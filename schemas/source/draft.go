package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/schemas/item"
)

// Bounds of the fields.
const (
	MaxName      = 255  // bytes
	MaxURL       = 2048 // bytes
	MaxRateLimit = 1000
	MaxDepth     = 100
	MaxSelectors = 64 << 10 // bytes of JSON
	MaxNesting   = 32       // of objects and lists in selectors
	MaxReason    = 255      // bytes
)

// Invalid says which rule a field breaks.
type Invalid = item.Invalid

// Draft is what somebody says about a source: some of its fields, and the rules
// that they break.
type Draft struct {
	fields Fields
	given  []string
	broken []Invalid
	// otherwise is the name of a source that has none, by this draft or before.
	otherwise string
}

// ReadDraft reads a JSON object with the fields of a source, and nothing else.
func ReadDraft(text []byte) *Draft {
	d := new(Draft)
	if !utf8.Valid(text) {
		d.breaks("", "utf8", "must be valid UTF-8")
		return d
	}
	err := members(text, func(name string, value json.RawMessage) { d.Set(name, value) })
	if err != nil {
		d.breaks("", "json", "must be one JSON object: "+err.Error())
	}
	return d
}

// members calls do with each member of a JSON object, in their order: a map would
// have the last of two with one name, and hide the other.
func members(text []byte, do func(name string, value json.RawMessage)) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	open, err := dec.Token()
	if err != nil {
		return readable(err)
	}
	if open != json.Delim('{') {
		return fmt.Errorf("it begins with %v", open)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return readable(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return readable(err)
		}
		do(name.(string), value)
	}
	if _, err := dec.Token(); err != nil {
		return readable(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

func readable(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("its end is missing")
	}
	return err
}

// Set says what a field is, as JSON.
func (d *Draft) Set(name string, value json.RawMessage) {
	switch {
	case !slices.Contains(Names, name):
		near, _ := nearest.Name(name, Names)
		d.breaks(name, "field_unknown", fmt.Sprintf("is no field of a source: the nearest is %s, of %s", near,
			strings.Join(Names, ", ")))
		return
	case slices.Contains(d.given, name):
		d.breaks(name, "repeated", "must be given once")
		return
	}
	d.given = append(d.given, name)
	switch name {
	case "name":
		d.text(name, value, &d.fields.Name, d.checkName)
	case "url":
		d.text(name, value, &d.fields.URL, d.checkURL)
	case "rate_limit":
		d.number(name, value, &d.fields.RateLimit, MaxRateLimit)
	case "max_depth":
		d.number(name, value, &d.fields.MaxDepth, MaxDepth)
	case "enabled":
		if json.Unmarshal(value, &d.fields.Enabled) != nil || isNull(value) {
			d.breaks(name, "type", "must be true or false")
		}
	case "selectors":
		d.selectors(value)
	case "priority":
		d.text(name, value, &d.fields.Priority, func(priority string) {
			if !slices.Contains(Priorities, priority) {
				d.breaks("priority", "priority_unknown", "must be one of "+strings.Join(Priorities, ", "))
			}
		})
	}
}

// SetText says what a field is, as a table has it, where everything is text.
func (d *Draft) SetText(name, value string) {
	if !utf8.ValidString(value) {
		d.given = append(d.given, name)
		d.breaks(name, "utf8", "must be valid UTF-8")
		return
	}
	text := json.RawMessage(value)
	switch name {
	case "name", "url", "priority":
		text, _ = json.Marshal(value) // any string can be
	case "enabled":
		text = json.RawMessage(strings.ToLower(value)) // spreadsheets write TRUE
	}
	if !json.Valid(text) {
		text = json.RawMessage(`""`) // which no field may be that is no string
	}
	d.Set(name, text)
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

func (d *Draft) breaks(field, code, rule string) {
	d.broken = append(d.broken, Invalid{Field: field, Code: code, Rule: rule})
}

func (d *Draft) text(field string, value json.RawMessage, into *string, check func(string)) {
	if json.Unmarshal(value, into) != nil || isNull(value) {
		d.breaks(field, "type", "must be a string")
		return
	}
	check(*into)
}

func (d *Draft) number(field string, value json.RawMessage, into *int, most int) {
	err := json.Unmarshal(value, into)
	var kind *json.UnmarshalTypeError
	whole := errors.As(err, &kind) && strings.HasPrefix(kind.Value, "number ") &&
		!bytes.ContainsAny(value, ".eE") // it is whole, and too large for an int
	switch {
	case isNull(value) || err != nil && !whole:
		d.breaks(field, "type", "must be a whole number")
	case whole || *into < 1 || *into > most:
		d.breaks(field, "range", fmt.Sprintf("must be from 1 to %d", most))
	}
}

func (d *Draft) checkName(name string) {
	if name == "" || strings.TrimSpace(name) != name {
		d.breaks("name", "name", "must not be empty, nor begin or end with a space")
		return
	}
	d.plain("name", name, MaxName)
}

// plain holds that a text is short and has no control characters.
func (d *Draft) plain(field, text string, most int) bool {
	rule := plain(field, text, most)
	if rule != nil {
		d.broken = append(d.broken, *rule)
	}
	return rule == nil
}

func plain(field, text string, most int) *Invalid {
	switch {
	case len(text) > most:
		return &Invalid{Field: field, Code: "length", Rule: fmt.Sprintf("must be at most %d bytes", most)}
	case !utf8.ValidString(text):
		return &Invalid{Field: field, Code: "utf8", Rule: "must be valid UTF-8"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return &Invalid{Field: field, Code: "control_character", Rule: "must not contain control characters"}
	}
	return nil
}

// CheckReason returns the rule that the reason of a change breaks, or nil.
func CheckReason(reason string) *Invalid { return plain("reason", reason, MaxReason) }

// CheckSearch returns the rules that a text breaks which names and URLs are searched for.
func CheckSearch(field, text string) []Invalid {
	switch {
	case len(text) > MaxURL:
		return []Invalid{{Field: field, Code: "length", Rule: fmt.Sprintf("must be at most %d bytes", MaxURL)}}
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return []Invalid{{Field: field, Code: "utf8", Rule: "must be valid UTF-8 without zero bytes"}}
	}
	return nil
}

func (d *Draft) checkURL(text string) {
	if !d.plain("url", text, MaxURL) {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		strings.TrimSpace(text) != text:
		d.breaks("url", "url", "must be an absolute http or https URL with a host, such as https://example.com/feed")
	case u.User != nil: // events and lists show it to everyone who may read
		d.breaks("url", "credentials", "must not contain a user name or a password")
	}
}

func (d *Draft) selectors(value json.RawMessage) {
	var compact bytes.Buffer
	switch {
	case len(value) == 0 || value[0] != '{' || json.Compact(&compact, value) != nil:
		d.breaks("selectors", "type", "must be a JSON object")
	case len(value) > MaxSelectors:
		d.breaks("selectors", "length", fmt.Sprintf("must be at most %d bytes of JSON", MaxSelectors))
	case nesting(value) > MaxNesting:
		d.breaks("selectors", "nesting", fmt.Sprintf("must be nested at most %d deep", MaxNesting))
	default:
		d.fields.Selectors = compact.Bytes()
	}
}

// nesting is how deep the objects and lists of a document are.
func nesting(document json.RawMessage) (deepest int) {
	depth := 0
	for dec := json.NewDecoder(bytes.NewReader(document)); ; {
		t, err := dec.Token()
		if err != nil {
			return deepest
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// Refuse notes a rule that the draft breaks as a whole, or in a way that its reader
// has found.
func (d *Draft) Refuse(field, code, rule string) { d.breaks(field, code, rule) }

// NameByHost lets a source without a name have the host of its URL for one.
func (d *Draft) NameByHost() {
	u, err := url.Parse(d.fields.URL)
	if err != nil || d.Given("name") {
		return
	}
	host := strings.TrimSpace(strings.ToValidUTF8(u.Host[:min(len(u.Host), MaxName)], ""))
	if plain("name", host, MaxName) == nil {
		d.otherwise = host
	}
}

// URL is the one that the draft gives; empty: it gives none.
func (d *Draft) URL() string { return d.fields.URL }

// Given tells whether the draft says what a field is.
func (d *Draft) Given(name string) bool { return slices.Contains(d.given, name) }

// Broken returns the rules that the fields which were given break.
func (d *Draft) Broken() []Invalid { return d.broken }

// BrokenAlone returns the rules that the draft breaks when it is all that is said
// about a source.
func (d *Draft) BrokenAlone() []Invalid {
	broken := slices.Clone(d.broken)
	if slices.ContainsFunc(broken, func(b Invalid) bool { return b.Field == "" }) { // nothing could be read
		return broken
	}
	for _, name := range []string{"name", "url"} {
		if !d.Given(name) && (name != "name" || d.otherwise == "") {
			broken = append(broken, Invalid{Field: name, Code: "missing", Rule: "is required"})
		}
	}
	return broken
}

// Over returns fields in which those that the draft gives have taken the place of
// what they were. The draft must break no rule.
func (d *Draft) Over(f Fields) Fields {
	if f.Name == "" {
		f.Name = d.otherwise
	}
	for _, name := range d.given {
		switch name {
		case "name":
			f.Name = d.fields.Name
		case "url":
			f.URL = d.fields.URL
		case "rate_limit":
			f.RateLimit = d.fields.RateLimit
		case "max_depth":
			f.MaxDepth = d.fields.MaxDepth
		case "enabled":
			f.Enabled = d.fields.Enabled
		case "selectors":
			f.Selectors = d.fields.Selectors
		case "priority":
			f.Priority = d.fields.Priority
		}
	}
	return f
}
