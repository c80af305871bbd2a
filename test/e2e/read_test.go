package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// journey is the part of GET /articles/{url_hash}/journey that tests look at.
type journey struct {
	Stages []struct {
		Name    string   `json:"name"`
		Events  int      `json:"events"`
		Latency *float64 `json:"latency_seconds"`
	} `json:"stages"`
}

// TestReadBack holds the promise that events can be read back: as a list, by
// pages, as an article's journey, and in SQL.
func TestReadBack(t *testing.T) {
	t.Parallel()
	s := up(t)
	article := "https://example.com/заголовок?a=1&b=2"
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(article)))
	start := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	for i, stage := range pipeline[:3] {
		status, _, body := s.post("/events", "application/json", valid(map[string]any{
			"article_url": article, "stage": stage, "occurred_at": start.Add(time.Duration(i) * time.Minute).Format(time.RFC3339),
			"metadata": map[string]any{"quality_score": 78, "topics": []string{"новости"}},
		}))
		if status != http.StatusCreated || !strings.Contains(string(body), hash) {
			t.Fatalf("status %d: %s", status, body)
		}
	}
	s.caughtUp()

	if got := s.stagesByPage("article_url=" + url.QueryEscape(article)); !slices.Equal(got,
		[]string{"classified", "indexed", "crawled"}) {
		t.Errorf("GET /events: %v, want the newest first", got)
	}
	j := get[journey](s, "/articles/"+hash+"/journey", "")
	if len(j.Stages) != 5 || j.Stages[2].Events != 1 || j.Stages[2].Latency == nil || *j.Stages[2].Latency != 60 ||
		j.Stages[3].Events != 0 {
		t.Errorf("journey: %+v", j)
	}
	if status, _, _ := s.fetch("/articles/" +
		hex.EncodeToString(make([]byte, 32)) + "/journey"); status != http.StatusNotFound {
		t.Errorf("journey of an unknown article: status %d, want 404", status)
	}
	if got := s.ask("SELECT quality_score, topics FROM events WHERE url_hash = '" + hash +
		"' AND stage = 'indexed'"); got != "78\t['новости']" {
		t.Errorf("in SQL: %s", got)
	}
}

// stagesByPage reads all pages of GET /events, two events each.
func (s *server) stagesByPage(filter string) []string {
	s.t.Helper()
	var stages []string
	cursor := ""
	for {
		page := get[struct {
			Events []struct{ Stage string }
			Next   string `json:"next_cursor"`
		}](s, "/events", filter+"&limit=2&cursor="+cursor)
		for _, e := range page.Events {
			stages = append(stages, e.Stage)
		}
		if cursor = page.Next; cursor == "" {
			return stages
		}
	}
}

// TestAnalyst holds the promise that the login of analysts reads and cannot
// write.
func TestAnalyst(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.post("/events", "application/json", valid(nil))
	s.caughtUp()
	if got := s.ask(
		"SELECT stage, source_name FROM events FORMAT JSONEachRow",
	); got != `{"stage":"crawled","source_name":"example_com"}` {
		t.Errorf("read: %s", got)
	}
	for _, write := range []string{
		"INSERT INTO events (seq, stage) VALUES (1, 'crawled')", "DROP TABLE events", "TRUNCATE TABLE events",
		"ALTER TABLE events DELETE WHERE 1", "CREATE TABLE mine (a Int8) ENGINE = Memory", "SYSTEM STOP MERGES",
		"SELECT * FROM file('/etc/passwd', 'LineAsString')",
	} {
		status, header, answer := s.sql("analyst", write)
		if status < 400 || header.Get("X-ClickHouse-Exception-Code") == "" {
			t.Errorf("%s: status %d, code %q: %s", write, status, header.Get("X-ClickHouse-Exception-Code"), answer)
		}
	}
	if status, _, _ := s.sql("stranger", "SELECT 1"); status != http.StatusForbidden &&
		status != http.StatusUnauthorized {
		t.Errorf("an unknown login: status %d", status)
	}
	if got := s.ask("SELECT count() FROM events"); got != "1" {
		t.Errorf("%s events afterwards, want 1", got)
	}
}

// TestLive holds the promise that an open WebSocket gets a new snapshot when an
// event comes in.
func TestLive(t *testing.T) {
	t.Parallel()
	s := up(t)
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+s.ports.HTTP+api+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.WriteJSON(map[string]string{
		"op": "subscribe", "id": "a", "view": "funnel", "period": "24h",
		"tz": "Asia/Kathmandu",
	}); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, conn, 0)
	for n := 1; n <= 3; n++ {
		if status, _, body := s.post("/events", "application/json", valid(nil)); status != http.StatusCreated {
			t.Fatalf("status %d: %s", status, body)
		}
		awaitCount(t, conn, n)
	}
}

// awaitCount reads snapshots until one has this many events in the first stage.
func awaitCount(t testing.TB, conn *websocket.Conn, want int) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(waitLimit)); err != nil {
		t.Fatal(err)
	}
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("no snapshot with %d events: %v", want, err)
		}
		var snapshot struct {
			ID     string
			Funnel *funnel
		}
		if err := json.Unmarshal(message, &snapshot); err != nil || snapshot.ID != "a" || snapshot.Funnel == nil {
			t.Fatalf("%v: %s", err, message)
		}
		if snapshot.Funnel.Stages[0].Events == want {
			return
		}
	}
}

// TestDocuments holds the promise that what describes the server is served.
func TestDocuments(t *testing.T) {
	t.Parallel()
	s := up(t)
	for path, word := range map[string]string{
		"/": "<html", "/docs": "<html", "/openapi.json": `"openapi"`, "/health": "", "/ready": `"ready"`,
		"/metrics":                  "go_goroutines",
		api + "/schemas/event.json": "article_url",
	} {
		resp, err := http.Get(s.url(path))
		status, _, body := s.read(resp, err)
		if status != http.StatusOK || !strings.Contains(string(body), word) {
			t.Errorf("GET %s: status %d, want 200 and %q in: %.300s", path, status, word, body)
		}
	}
}
