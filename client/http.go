package client

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
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
		}}, true
	}
	return t
}

func (t *httpTransport) close() {
	if t.own {
		t.client.CloseIdleConnections()
	}
}

func (t *httpTransport) deliver(ctx context.Context, batch []item) ([]Outcome, error) {
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
	case status == http.StatusOK || status == http.StatusCreated:
		return outcomesOf(len(batch), answer), nil
	case status == http.StatusBadRequest && len(answer.Rejected) > 0:
		return outcomesOf(len(batch), answer), nil
	}
	err = fmt.Errorf("a batch of %d events was answered with status %d: %s", len(batch), status, answer)
	if status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity {
		return nil, &refusedWhole{err}
	}
	return nil, err
}

// one posts a single event.
func (t *httpTransport) one(ctx context.Context, it item) ([]Outcome, error) {
	status, answer, err := t.post(ctx, "/events", bytes.NewReader(it.text))
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusCreated:
		return []Outcome{{Status: Accepted}}, nil
	case status == http.StatusOK:
		return []Outcome{{Status: Duplicate}}, nil
	case status == http.StatusRequestEntityTooLarge:
		return []Outcome{{Err: fmt.Errorf("%w: %s", ErrTooLarge, answer)}}, nil
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		return []Outcome{{Err: fmt.Errorf("%w: %s", errRefusal, answer)}}, nil
	}
	return nil, fmt.Errorf("status %d: %s", status, answer)
}

// reply is what Millrace says of a request, or a problem document.
type reply struct {
	Rejected []struct {
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

func outcomesOf(n int, a reply) []Outcome {
	outcomes := make([]Outcome, n)
	for i := range outcomes {
		outcomes[i].Status = Accepted
	}
	for _, r := range a.Rejected {
		if r.Index >= 0 && r.Index < n {
			outcomes[r.Index] = Outcome{Err: fmt.Errorf("%w: %w", errRefusal, &r.Error)}
		}
	}
	return outcomes
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
