package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const api = "/api/v1"

// funnel is the part of GET /funnel that tests look at.
type funnel struct {
	Stages       []stageCount `json:"stages"`
	UniqueMethod string       `json:"unique_method"`
	UniqueError  float64      `json:"unique_error"`
	Stream       struct {
		LastSeq   uint64 `json:"last_seq"`
		FoldedSeq uint64 `json:"folded_seq"`
		Behind    uint64 `json:"behind"`
	} `json:"stream"`
}

type stageCount struct {
	Name    string `json:"name"`
	Events  int    `json:"count"`
	Uniques int    `json:"unique_articles"`
}

// get reads JSON. Params are a query, such as "period=24h". It asks again, as a client
// does, while the answer is that it should.
func get[T any](s *server, path, params string) T {
	s.t.Helper()
	var status int
	var body []byte
	s.retry(s.t, "GET "+path, func() (busy bool) {
		status, _, body = s.fetch(path + "?" + params)
		return status == http.StatusServiceUnavailable
	})
	if status != http.StatusOK {
		s.t.Fatalf("GET %s?%s: status %d: %s", path, params, status, body)
	}
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		s.t.Fatalf("GET %s: %v: %s", path, err, body)
	}
	return v
}

func (s *server) fetch(target string) (status int, header http.Header, body []byte) {
	s.t.Helper()
	resp, err := http.Get(s.url(api + target))
	return s.read(resp, err)
}

func (s *server) post(path, contentType, body string) (status int, header http.Header, answer []byte) {
	s.t.Helper()
	resp, err := http.Post(s.url(api+path), contentType, strings.NewReader(body))
	return s.read(resp, err)
}

func (s *server) read(resp *http.Response, err error) (int, http.Header, []byte) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, body
}

// caughtUp waits until everything in the stream is counted, and returns the
// stream's last sequence.
func (s *server) caughtUp() uint64 {
	s.t.Helper()
	var f funnel
	poll(s.t, waitLimit, "the funnel to catch up with the stream", func() bool {
		f = get[funnel](s, "/funnel", "period=24h")
		return f.Stream.Behind == 0 && f.Stream.FoldedSeq == f.Stream.LastSeq
	})
	return f.Stream.LastSeq
}

// emitted is what "millrace emit" reports.
type emitted struct{ accepted, duplicates, rejected int }

var reportLine = regexp.MustCompile(`accepted=(\d+) duplicates=(\d+) rejected=(\d+)`)

// emit publishes lines of events by "millrace emit -", which knows no more of the
// installation than where it is.
func (s *server) emit(lines []byte) emitted {
	s.t.Helper()
	p := s.beginEmit(bytes.NewReader(lines))
	status := p.wait(s.t, waitLimit)
	e := report(s.t, p.out.String())
	if want := map[bool]int{false: 0, true: 3}[e.rejected > 0]; status != want {
		s.t.Fatalf("millrace emit: exit status %d, want %d:\n%s", status, want, p.log)
	}
	return e
}

func (s *server) beginEmit(in io.Reader) *process {
	s.t.Helper()
	return launch(s.t, []string{"MILLRACE_NATS_URL=" + s.natsURL(), "MILLRACE_EMIT_WAIT=0"}, in, "emit", "-")
}

func report(t testing.TB, text string) emitted {
	t.Helper()
	m := reportLine.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("millrace emit reports %q", text)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1])
	}
	return emitted{n[0], n[1], n[2]}
}

// sql runs a query over ClickHouse's HTTP interface.
func (s *server) sql(user, query string) (status int, header http.Header, answer string) {
	s.t.Helper()
	resp, err := http.Post(fmt.Sprintf("http://%s/?user=%s", s.ports.ClickHouseHTTP, url.QueryEscape(user)),
		"text/plain", strings.NewReader(query))
	status, header, body := s.read(resp, err)
	return status, header, strings.TrimSpace(string(body))
}

// ask runs a query as an analyst, again while the statements of others take all
// the memory that analysts have.
func (s *server) ask(query string) (answer string) {
	s.t.Helper()
	s.retry(s.t, query, func() (busy bool) {
		var status int
		status, _, answer = s.sql("analyst", query)
		if strings.Contains(answer, "User memory limit exceeded") {
			return true
		}
		if status != http.StatusOK {
			s.t.Fatalf("%s: status %d: %s", query, status, answer)
		}
		return false
	})
	return answer
}
