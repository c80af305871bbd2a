package emit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/client/publish"
	"github.com/millrace-io/millrace/schemas/event"
)

// httpTransport posts events.
type httpTransport struct {
	client *http.Client
	base   string // with /api/v1
	token  string
	own    bool // client is the transport's own
}

func newHTTPTransport(o Options) *httpTransport {
	t := &httpTransport{client: o.HTTPClient, base: strings.TrimRight(o.URL, "/") + "/api/v1", token: o.Token}
	if t.client == nil {
		t.client, t.own = &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
			ForceAttemptHTTP2: true,
		}, CheckRedirect: whilePost}, true
	}
	return t
}

// whilePost follows no redirect that would make a GET of a POST.
func whilePost(r *http.Request, via []*http.Request) error {
	if r.Method != http.MethodPost || len(via) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

func (t *httpTransport) close() {
	if t.own {
		t.client.CloseIdleConnections()
	}
}

func (t *httpTransport) deliver(ctx context.Context, batch []item) ([]publish.Outcome, error) {
	if len(batch) == 1 {
		return t.one(ctx, batch[0])
	}
	var body bytes.Buffer
	body.WriteString(`{"events":[`)
	for i := range batch {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(batch[i].text)
	}
	body.WriteString(`]}`)
	status, answer, err := t.post(ctx, "/events/batch", &body)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK || status == http.StatusCreated || status == http.StatusBadRequest &&
		len(answer.Rejected) > 0:
		return outcomesOf(batch, answer)
	}
	err = fmt.Errorf("a batch of %d events was answered with status %d: %s", len(batch), status, answer)
	if status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnprocessableEntity {
		return nil, &refusedWhole{err}
	}
	return nil, err
}

// one posts a single event.
func (t *httpTransport) one(ctx context.Context, it item) ([]publish.Outcome, error) {
	status, answer, err := t.post(ctx, "/events", bytes.NewReader(it.text))
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusCreated && answer.Status == "accepted":
		return []publish.Outcome{{Status: publish.Accepted}}, nil
	case status == http.StatusOK && answer.Status == "duplicate":
		return []publish.Outcome{{Status: publish.Duplicate}}, nil
	case status == http.StatusRequestEntityTooLarge:
		return []publish.Outcome{{Err: fmt.Errorf("%w: %s", publish.ErrTooLarge, answer)}}, nil
	case status == http.StatusBadRequest && answer.rule() != nil:
		err := refusal(it, answer.rule())
		if final(err) {
			return []publish.Outcome{{Err: err}}, nil
		}
		return nil, err
	}
	// A 400 that names no rule may be a proxy's, and says nothing of the event.
	return nil, fmt.Errorf("status %d: %s", status, answer)
}

// reply is what Millrace says of a request, or a problem document.
type reply struct {
	Status     any `json:"status"` // of a single event; a problem's is a number
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	Rejected   []struct {
		Index int           `json:"index"`
		Error event.Invalid `json:"error"`
	} `json:"rejected"`
	Title  string          `json:"title"`
	Detail string          `json:"detail"`
	Errors []event.Invalid `json:"errors"`
}

func (a reply) String() string {
	if len(a.Errors) > 0 {
		return a.Errors[0].Error()
	}
	return cmp.Or(a.Detail, a.Title, "no reason given")
}

// rule returns the rule that a single event breaks, and nil for an answer that
// names none, or tells that the body was cut off on its way.
func (a reply) rule() *event.Invalid {
	if len(a.Errors) == 0 || a.Errors[0].Code == "" || a.Errors[0].Code == "body" {
		return nil
	}
	return &a.Errors[0]
}

// errMayNotBackfill is not about the event: a token with the scope mends it.
var errMayNotBackfill = errors.New(
	"the token lacks the scope events:backfill, without which events that have waited for almost 24 hours are refused",
)

// refusal is the error of an event that breaks a rule.
func refusal(it item, rule *event.Invalid) error {
	if it.marked && rule.Code == "backfill_forbidden" {
		return errMayNotBackfill
	}
	return fmt.Errorf("%w: %w", errRefusal, rule)
}

// outcomesOf returns what became of each event. An answer that does not tell of
// all of them is somebody else's.
func outcomesOf(batch []item, a reply) ([]publish.Outcome, error) {
	n := len(batch)
	if told := a.Accepted + a.Duplicates + len(a.Rejected); told != n {
		return nil, fmt.Errorf("a batch of %d events was answered with the fate of %d", n, told)
	}
	outcomes := make([]publish.Outcome, n)
	for i := range outcomes {
		outcomes[i].Status = publish.Accepted
	}
	var failure error
	for _, r := range a.Rejected {
		if r.Index < 0 || r.Index >= n {
			continue
		}
		err := refusal(batch[r.Index], &r.Error)
		outcomes[r.Index] = publish.Outcome{Err: err}
		if !final(err) {
			failure = err
		}
	}
	return outcomes, failure
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 8 << 20

// maxSlow bounds how long an answer may ask to wait.
const maxSlow = time.Minute

func (t *httpTransport) post(ctx context.Context, path string, body io.Reader) (status int, a reply, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+path, body)
	if err != nil {
		return 0, a, fmt.Errorf("post events: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return 0, a, fmt.Errorf("post events: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 3 || resp.Request.Method != http.MethodPost {
		to := cmp.Or(resp.Header.Get("Location"), resp.Request.URL.Redacted())
		return 0, a, fmt.Errorf("post events: the address leads on to %s, which is the one to give", to)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, a, fmt.Errorf("post events: read the answer: %w", err)
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return 0, a, &slowDown{retryAfter(resp.Header)}
	}
	if err := json.Unmarshal(text, &a); err != nil && resp.StatusCode < 300 {
		return 0, a, errors.New("post events: the answer is not Millrace's: it is no JSON")
	}
	return resp.StatusCode, a, nil
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return time.Second
	}
	return min(time.Duration(seconds)*time.Second, maxSlow)
}
