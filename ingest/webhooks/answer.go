package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Answer is what became of a request.
type Answer struct {
	Status     int // 0: there was none
	Body       []byte
	RetryAfter *time.Duration // nil: the answer does not say
	Err        error          // why there was no answer
}

// Kind is what an answer means.
type Kind string

// Kinds of answers.
const (
	Done      Kind = "done"
	NotFound  Kind = "not_found"
	Throttled Kind = "throttled"
	Server    Kind = "server"
	Network   Kind = "network"
	Invalid   Kind = "invalid" // the same request will never succeed
	Refused   Kind = "refused" // the address is none that may be called
)

// Kind returns what the answer means.
func (a Answer) Kind() Kind {
	switch {
	case netguard.Refused(a.Err):
		return Refused
	case a.Err != nil, a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly:
		return Network
	case a.Status == http.StatusTooManyRequests:
		return Throttled
	case a.Status >= 500:
		return Server
	case a.Status == http.StatusNotFound:
		return NotFound
	case a.Status >= 200 && a.Status < 300:
		return Done
	}
	return Invalid
}

// classes are those of errors that are reported.
var classes = map[Kind]string{
	Throttled: item.ClassThrottled, Server: item.ClassServer, Network: item.ClassNetwork, Invalid: item.ClassInvalid,
	Refused: item.ClassInvalid,
}

// Report returns what a worker would report: of a row of an upload, or of another item, of which fewer things can be
// said. It has neither the item nor its queue. The pacing has no zeros.
func (a Answer) Report(host string, attempt int32, row bool, p item.Pacing) stream.Report {
	kind := a.Kind()
	switch {
	case kind == Done:
		return stream.Report{Report: "done", Result: bytes.TrimSpace(a.Body)}
	case kind == NotFound && row:
		return stream.Report{Report: "done", NotFound: true}
	case kind == NotFound:
		return stream.Report{Report: "fail", Permanent: true, Error: a.text()}
	}
	r := stream.Report{Report: "fail", Error: a.text()}
	if row {
		r.Class, r.Domain = classes[kind], host
		if a.RetryAfter != nil && kind != Invalid && kind != Refused {
			after := a.RetryAfter.Seconds()
			r.RetryAfterS = &after
		}
		return r
	}
	if r.Permanent = kind == Invalid || kind == Refused; r.Permanent {
		return r
	}
	wait := p.Wait(classes[kind], attempt)
	if a.RetryAfter != nil {
		wait = max(wait, *a.RetryAfter)
	}
	delay := wait.Seconds()
	r.Report, r.DelayS = "again", &delay
	return r
}

// maxQuoted is how many bytes of an answer an error quotes.
const maxQuoted = 300

// text is the error of an answer that is no success.
func (a Answer) text() string {
	switch {
	case a.Kind() == Refused:
		return "the webhook is not called: its address is in no public network. The operator may allow it with MILLRACE_WEBHOOK_ALLOW"
	case errors.Is(a.Err, context.DeadlineExceeded):
		return "the webhook has not answered in time"
	case a.Err != nil:
		return "the webhook has not answered: " + cause(a.Err)
	case a.Status >= 300 && a.Status < 400:
		return fmt.Sprintf("the webhook has answered %d: redirects are not followed, so it has to answer itself", a.Status)
	}
	text := fmt.Sprintf("the webhook has answered %d", a.Status)
	if quoted := quote(a.Body); quoted != "" {
		text += ": " + quoted
	}
	return text
}

// quote is the beginning of an answer, in one line; nothing of one that is no text.
func quote(body []byte) string {
	if len(body) > maxQuoted {
		body = body[:maxQuoted]
		for len(body) > 0 && !utf8.Valid(body) && len(body) > maxQuoted-utf8.UTFMax {
			body = body[:len(body)-1]
		}
	}
	if !utf8.Valid(body) {
		return ""
	}
	one := func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}
	return strings.Join(strings.Fields(strings.Map(one, string(body))), " ")
}

// retryAfter reads the header, which has seconds or a time. It returns nil where it has neither.
func retryAfter(text string, now time.Time) *time.Duration {
	const most = item.MaxDelay * time.Second
	if text == "" {
		return nil
	}
	var wait time.Duration
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	} else {
		return nil
	}
	wait = min(max(wait, 0), most)
	return &wait
}

// Call is what a receiver gets of an item.
type Call struct {
	Queue   string          `json:"queue"`
	ID      int64           `json:"id"`
	Attempt int32           `json:"attempt"` // from 1
	Key     string          `json:"key,omitempty"`
	Group   string          `json:"group,omitempty"`
	Payload json.RawMessage `json:"payload"`
}

// MessageID names the item, and is the same for all of its attempts.
func (c Call) MessageID() string { return c.Queue + "-" + strconv.FormatInt(c.ID, 10) }
