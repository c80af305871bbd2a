package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// testSilence: nobody keeps another's event from counting: neither by its message
// id, nor by its key. What is refused is named, or a dead letter that counts when
// it is replayed, once.
func testSilence(t *testing.T, s *server) {
	js, err := jetstream.New(s.nats())
	if err != nil {
		t.Fatal(err)
	}
	send := func(fields map[string]any) (body string, status int) {
		t.Helper()
		fields["source_name"] = "silence"
		body = valid(fields)
		status, _ = s.with(t, token(t, "events:write events:backfill"), http.MethodPost, "/events", body)
		return body, status
	}
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second).Format(time.RFC3339)
	url := func(n int) string { return fmt.Sprint("https://silence.example.com/", n) }
	hash := func(n int) string {
		sum := sha256.Sum256([]byte(url(n)))
		return hex.EncodeToString(sum[:])
	}
	subject := func(n int, stage string) string { return "events." + stage + "." + hash(n)[:2] }

	// Garbage with the message id of an event.
	for n := range 3 {
		id := "e2e:crawled:" + hash(n)[:8] + ":" + at + "/" + hash(n)
		if _, err := js.Publish(t.Context(), subject(n, "crawled"), []byte("garbage"),
			jetstream.WithMsgID(id)); err != nil {
			t.Fatal(err)
		}
		if body, status := send(
			map[string]any{"article_url": url(n), "occurred_at": at},
		); status != http.StatusCreated {
			t.Errorf("%s is answered %d after garbage with its id", body, status)
		}
	}
	// Two channels at one time.
	for _, channel := range []string{"a", "b"} {
		for _, want := range []int{http.StatusCreated, http.StatusOK} {
			body, status := send(map[string]any{
				"article_url": url(3), "stage": "published", "occurred_at": at,
				"metadata": map[string]any{"channel": channel},
			})
			if status != want {
				t.Errorf("%s is answered %d, not %d", body, status, want)
			}
		}
	}
	// The key of another service and stage, over HTTP and over NATS.
	own := map[string]any{"article_url": url(4), "idempotency_key": "silence"}
	if body, status := send(own); status != http.StatusCreated {
		t.Errorf("%s is answered %d", body, status)
	}
	for _, field := range []string{"service_name", "stage"} {
		taken := map[string]any{"article_url": url(4), "idempotency_key": "silence", field: "indexed"}
		if body, status := send(taken); status != http.StatusConflict {
			t.Errorf("%s is answered %d", body, status)
		}
		stage := "crawled"
		if field == "stage" {
			stage = "indexed"
		}
		if _, err := js.Publish(t.Context(), subject(4, stage), []byte(valid(taken))); err != nil {
			t.Fatal(err)
		}
	}
	counted := func() string {
		return s.ask("SELECT count() FROM events WHERE domain = 'silence.example.com'")
	}
	conflicts := func() int {
		_, body := s.with(t, token(t, "admin"), http.MethodGet, "/dlq?code=key_conflict", "")
		var page struct{ Letters []json.RawMessage }
		if err := json.Unmarshal(body, &page); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return len(page.Letters)
	}
	poll(t, waitLimit, "two dead letters", func() bool { return conflicts() == 2 })
	poll(t, waitLimit, "six events", func() bool { return counted() == "6" })
	for range 2 {
		replay := func() (int, []byte) {
			return s.with(t, token(t, "admin"), http.MethodPost, "/dlq/replay", `{"filter":{"code":"key_conflict"}}`)
		}
		if status, body := s.patient(t, "the replay", replay); status != http.StatusOK {
			t.Errorf("replay: %d %s", status, body)
		}
	}
	poll(t, waitLimit, "eight events", func() bool { return counted() == "8" })
	if n := conflicts(); n > 0 {
		t.Errorf("%d conflicts after the replay", n)
	}
}
