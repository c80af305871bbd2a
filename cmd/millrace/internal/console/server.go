package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// Server is the installation that a command asks. Its methods may be called
// from any goroutines.
type Server struct {
	URL   Address `help:"Address of the HTTP server, or of the proxy before the servers." env:"MILLRACE_URL" default:"http://127.0.0.1:8075"`
	Token string  `help:"Token of the caller, where the server wants one." env:"MILLRACE_TOKEN"`
}

// Address is that of an HTTP server.
type Address struct{ url *url.URL }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Address) UnmarshalText(text []byte) error {
	address := string(text)
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" {
		return errors.New(`must be the address of a server, such as "http://127.0.0.1:8075"`)
	}
	a.url = u
	return nil
}

func (a Address) String() string { return a.url.Redacted() }

const (
	base      = "api/v1"
	patience  = 40 * time.Second // for an answer: the server gives up after 25 s
	maxAnswer = 64 << 20         // bytes
)

// get reads what is at a path of the API.
func (s Server) get(ctx context.Context, path string, query url.Values, out any) error {
	return s.ask(ctx, http.MethodGet, path, query, nil, out)
}

// post sends a command to a path of the API.
func (s Server) post(ctx context.Context, path string, body, out any) error {
	return s.ask(ctx, http.MethodPost, path, nil, body, out)
}

func (s Server) ask(ctx context.Context, method, path string, query url.Values, body, out any) error {
	return s.askFor(ctx, patience, method, path, query, body, out)
}

// askFor is ask, and waits for the answer for so long.
func (s Server) askFor(
	ctx context.Context, wait time.Duration, method, path string, query url.Values, body, out any,
) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	resp, err := s.send(ctx, method, base+path, query, body)
	if err != nil {
		return err
	}
	return s.decode(resp, out)
}

// decode reads an answer with a status of success, or one that is named, and closes its body.
func (s Server) decode(resp *http.Response, out any, also ...int) error {
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && !slices.Contains(also, resp.StatusCode) {
		return refusal(resp)
	}
	err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", s.URL, err)
	}
	return nil
}

// send sends a request to a path below the server's address. The caller closes
// the body of the answer, whatever its status.
func (s Server) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	if body == nil {
		return s.sendText(ctx, method, path, query, "", nil)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return s.sendText(ctx, method, path, query, "application/json", bytes.NewReader(text))
}

// sendText is send with a body of any type.
func (s Server) sendText(
	ctx context.Context, method, path string, query url.Values, kind string, content io.Reader,
) (*http.Response, error) {
	target := s.URL.url.JoinPath(path)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), content)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if outer := new(url.Error); errors.As(err, &outer) {
		err = fmt.Errorf("no answer from %s: %w (--url names the server)", s.URL, outer.Err)
	}
	return resp, err
}

// refusal is the problem that a server has answered with.
func refusal(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	p := new(httpapi.Problem)
	if json.Unmarshal(text, p) != nil || p.Status == 0 { // it comes from a proxy
		p = httpapi.NewProblem(resp.StatusCode, fmt.Sprintf("%.200s", text))
	}
	switch {
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return fmt.Errorf("%w (--token; \"millrace token\" mints one)", p)
	case p.Status == http.StatusNotFound && len(p.Errors) == 0:
		return fmt.Errorf("%w (--url; the role query answers reads, and the role ingest commands)", p)
	}
	return p
}

// statusOf is the HTTP status of a refusal; 0: it is none.
func statusOf(err error) int {
	if p := new(httpapi.Problem); errors.As(err, &p) {
		return p.Status
	}
	return 0
}

// snapshot reads the present state of a live view.
func (s Server) snapshot(ctx context.Context, view string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := s.send(ctx, http.MethodGet, base+"/live/sse", url.Values{"view": {view}}, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return state(data, view, out)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the live view %s: %w", view, err)
	}
	return fmt.Errorf("read the live view %s: the server has ended it", view)
}

// state reads a message of a live view.
func state(data, view string, out any) error {
	var message map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &message); err != nil {
		return fmt.Errorf("read the live view %s: %w", view, err)
	}
	if text, wrong := message["error"]; wrong {
		p := new(httpapi.Problem)
		if err := json.Unmarshal(text, p); err != nil {
			return fmt.Errorf("read the live view %s: %w", view, err)
		}
		return p
	}
	if err := json.Unmarshal(message[view], out); err != nil {
		return fmt.Errorf("read the live view %s: %w", view, err)
	}
	return nil
}

// list reads the rows of a list, page by page, until there are as many as the
// limit (0: all), or until each wants no more. It tells whether there are more.
func (s Server) list(
	ctx context.Context, path, rows string, query url.Values, limit int,
	each func([]json.RawMessage) (goOn bool, err error),
) (more bool, err error) {
	query = maps.Clone(query)
	for left := limit; ; {
		size := maxPage
		if limit > 0 {
			size = min(left, maxPage)
		}
		query.Set("limit", strconv.Itoa(size))
		var page map[string]json.RawMessage
		if err := s.get(ctx, path, query, &page); err != nil {
			return false, err
		}
		var all []json.RawMessage
		var cursor string
		err := json.Unmarshal(page[rows], &all)
		if text, ok := page["next_cursor"]; ok && err == nil {
			err = json.Unmarshal(text, &cursor)
		}
		if err != nil {
			return false, fmt.Errorf("read the answer of %s: %w", s.URL, err)
		}
		goOn, err := each(all)
		if left -= len(all); err != nil || !goOn || cursor == "" || limit > 0 && left <= 0 {
			return cursor != "", err
		}
		query.Set("cursor", cursor)
	}
}

// maxPage is how many rows a page of every list of the API may have.
const maxPage = 500

// notEmpty leaves out parameters that were not given.
func notEmpty(parameters map[string]string) url.Values {
	query := url.Values{}
	for name, value := range parameters {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}
