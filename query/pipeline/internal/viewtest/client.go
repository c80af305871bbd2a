package viewtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
)

// Open connects to a database until the test ends. The test may close the
// connection before.
func Open(t testing.TB, opts *clickhouse.Options) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Error(err)
		}
	})
	return conn
}

// Client asks a server on this machine, which ends with the test. It may be used
// by several goroutines.
type Client struct {
	T   testing.TB
	URL string // of the server

	contract *contracttest.Contract // what the server says that it answers
}

// Serve starts a server.
func Serve(t testing.TB, h http.Handler) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Client{t, s.URL, contracttest.Of(t, h)}
}

// For is the client in the hands of another test, such as a subtest.
func (c *Client) For(t testing.TB) *Client { return &Client{t, c.URL, c.contract} }

// Get sends a request and decodes the answer; it returns the status.
func (c *Client) Get(path string, query url.Values, answer any) int {
	c.T.Helper()
	resp, err := http.Get(c.URL + "/api/v1" + path + "?" + query.Encode())
	if err != nil {
		c.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.T.Fatal(err)
	}
	if err := c.contract.Check(http.MethodGet, resp.Request.URL, resp, text); err != nil {
		c.T.Error(err)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		c.T.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode
}

// Must is Get for requests that succeed.
func (c *Client) Must(path string, query url.Values, answer any) {
	c.T.Helper()
	if status := c.Get(path, query, answer); status != http.StatusOK {
		c.T.Fatalf("%s?%s: status %d: %+v", path, query.Encode(), status, answer)
	}
}

// Values makes the parameters of a request from names and values. Those without
// a value are left out.
func Values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
