package reads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// shop is a system of a test: it knows which fruits there are.
type shop struct{ fruits string }

type fruitRequest struct {
	httpapi.Params
	Name  string `query:"name"`
	Since string `query:"since"`
	Limit int    `query:"limit" minimum:"1" maximum:"5" default:"5"`
}

func (r *fruitRequest) Resolve(ctx huma.Context) []error {
	return Resolve(ctx, r.Params, func(s *shop) (f Faults) {
		f.Add(CheckName("name", r.Name))
		if !strings.Contains(s.fruits, r.Name) {
			f.Add(Broken("name", "fruit_unknown", "must be one of "+s.fruits))
		}
		_, p := ParseTime("since", r.Since)
		f.Add(p)
		return f
	})
}

// Fruit is the answer of a test.
type Fruit struct{ Name string }

var errRotten = errors.New("rotten")

// TestGet: a request is refused with all that is wrong with it, and an error is
// told as the problem that it is.
func TestGet(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took"}, []string{"endpoint"})
	api := endpoint.API{
		Server: srv, Auth: auth.New(auth.Config{}), Tag: "Fruits", Limit: time.Hour, Took: took,
		Known: func(err error) error {
			if errors.Is(err, errRotten) {
				return httpapi.NewProblem(http.StatusGone, "it is rotten")
			}
			return Problem(log, err)
		},
	}
	var fails error
	find := func(ctx context.Context, r fruitRequest) (Fruit, error) {
		if _, bound := ctx.Deadline(); !bound {
			t.Error("the request has no deadline")
		}
		return Fruit{r.Name}, fails
	}
	Get(api, &shop{"apple pear"}, "fruit", "/fruit", "A fruit", find)
	ask := func(query string) (p httpapi.Problem, text string) {
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/fruit?"+query, nil))
		text = w.Body.String()
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		p.Status = w.Code
		return p, text
	}
	if p, text := ask("name=pear"); p.Status != http.StatusOK || !strings.Contains(text, `"Name":"pear"`) {
		t.Errorf("%s", text)
	}
	p, text := ask("name=plum&since=soon&limit=7&colour=red")
	fields := map[string]bool{}
	for _, e := range p.Errors {
		fields[e.Field] = true
	}
	if p.Status != http.StatusBadRequest || fmt.Sprint(fields) != "map[colour:true limit:true name:true since:true]" {
		t.Errorf("%s", text)
	}
	for cause, status := range map[error]int{
		errRotten: http.StatusGone, errors.New("secret"): http.StatusInternalServerError,
		fmt.Errorf("%w: refused", ErrUnavailable):  http.StatusServiceUnavailable,
		context.DeadlineExceeded:                   http.StatusServiceUnavailable,
		Broken("name", "other", "must be another"): http.StatusBadRequest,
	} {
		fails = cause
		if p, text := ask("name=apple"); p.Status != status || strings.Contains(text, "secret") {
			t.Errorf("%v: %s", cause, text)
		}
	}
	if n := testutil.CollectAndCount(took); n != 1 {
		t.Errorf("%d endpoints are measured", n)
	}
}

// TestPlaces: who finds no place waits for one, or for the end of its context.
func TestPlaces(t *testing.T) {
	p := NewPlaces("tests", 1, 0)
	leave, err := p.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Enter(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one enters: %v", err)
	}
	leave()
	if _, err := p.Enter(t.Context()); err != nil {
		t.Error(err)
	}
}

// FuzzCursor: what is read of a cursor is written the same again, and belongs to
// one list.
func FuzzCursor(f *testing.F) {
	one, other := Pairs("one"), Pairs("other")
	f.Add(one.Encode(Pair{7, math.MaxUint64}))
	f.Add("AQAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("' OR 1=1")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := one.Decode(text)
		if ok && one.Encode(p) != text {
			t.Fatalf("%q decodes to %v", text, p)
		}
		if _, both := other.Decode(text); ok && both {
			t.Fatalf("%q is of two lists", text)
		}
	})
}

// TestCursorsOfTwoLists: no two lists take each other's cursors, since none has the
// name of another.
func TestCursorsOfTwoLists(t *testing.T) {
	IDs("named twice")
	defer func() {
		if recover() == nil {
			t.Error("a second list got the name of another")
		}
	}()
	Times("named twice")
}

// TestGetFile: a file that cannot be completed does not look complete, and a
// caller that wants no body is told of its name alone.
func TestGetFile(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	api := endpoint.API{
		Server: srv, Auth: auth.New(auth.Config{}), Tag: "Fruits", Limit: time.Hour,
		Took:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took"}, []string{"endpoint"}),
		Known: func(err error) error { return Problem(log, err) },
	}
	var fails error
	wanted := make(chan bool, 4)
	GetFile(api, &shop{"apple pear"}, "fruits", "/fruits", "Fruits", []string{"text/plain"}, NewPlaces("fruits", 4, 2),
		func(_ context.Context, r fruitRequest) (File, error) {
			if r.Limit == 1 {
				return File{}, Broken("limit", "fruits", "must be more")
			}
			return File{
				Name: "fruits.txt", ContentType: "text/plain",
				Write: func(ctx context.Context, w io.Writer) error {
					wanted <- ctx.Err() == nil
					_, err := io.WriteString(w, "apple")
					return errors.Join(err, fails)
				},
			}, nil
		})
	web := httptest.NewServer(srv.Handler())
	defer web.Close()
	// A request on a connection that was used before may be sent twice.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, query string) (*http.Response, string, error) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+"/api/v1/fruits?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp, string(body), err
	}
	if resp, _, err := ask(http.MethodGet, "limit=1"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a refused request: %v %v", resp, err)
	}
	resp, body, err := ask(http.MethodGet, "")
	if err != nil || body != "apple" || !<-wanted || resp.Header.Get("Content-Type") != "text/plain" ||
		resp.Header.Get("Content-Disposition") != "attachment; filename=fruits.txt" {
		t.Errorf("%v %v %q", err, resp, body)
	}
	if _, body, err := ask(http.MethodHead, ""); err != nil || body != "" || <-wanted {
		t.Errorf("HEAD: %v %q", err, body)
	}
	fails = errRotten
	if _, body, err := ask(http.MethodGet, ""); err == nil || !<-wanted {
		t.Errorf("a file that is cut off reads as %q", body)
	}
}
