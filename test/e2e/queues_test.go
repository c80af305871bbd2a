package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// liveQueue is a queue of the live view queues.
type liveQueue struct {
	Name                  string
	Ready, Running, Done  int
	Delayed, Failed, Dead int
	OldestSince           *time.Time `json:"oldest_since"`
}

// ownQueues are the queues of Millrace itself.
var ownQueues = []string{
	"shard-splitter", "shard-worker", "mysql-sender", "crawl",
	"recrawl-rate-limiting", "recrawl-network", "recrawl-storage", "recrawl-generic",
}

// TestOwnQueues holds what is promised about queues that people make.
func TestOwnQueues(t *testing.T) {
	t.Parallel()
	s := up(t)
	testLiveQueues(t, s)
	testEnqueueRights(t, s)
	testConsole(t, s)
}

// testLiveQueues: the view queues shows every queue: those of shards at once, and
// one that somebody makes as soon as it is there, with what stands in it.
func testLiveQueues(t *testing.T, s *server) {
	conn, _, err := s.live(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.WriteJSON(map[string]string{"op": "subscribe", "id": "a", "view": "queues"}); err != nil {
		t.Fatal(err)
	}
	await := func(what string, holds func(map[string]liveQueue) bool) {
		t.Helper()
		awaitQueues(t, conn, what, holds)
	}
	await("the queues of shards, crawls and retries alone", func(q map[string]liveQueue) bool {
		for _, name := range ownQueues {
			if q[name].Name == "" {
				return false
			}
		}
		return len(q) == len(ownQueues)
	})
	send := func(path, body string, want int) []byte {
		t.Helper()
		status, _, text := s.post(path, "application/json", body)
		if status != want {
			t.Fatalf("POST %s: %d %s", path, status, text)
		}
		return text
	}
	send("/queues", `{"name":"mail","backoff_s":[3600]}`, http.StatusCreated)
	await("the new queue", func(q map[string]liveQueue) bool { return q["mail"].Name != "" && len(q) == len(ownQueues)+1 })

	send("/queues/mail/items", `{"items":[{"payload":1},{"payload":2},{"payload":3,"run_at":"2999-01-01T00:00:00Z"}]}`,
		http.StatusCreated)
	await("two items that are ready", func(q map[string]liveQueue) bool {
		return q["mail"].Ready == 2 && q["mail"].Delayed == 1 && q["mail"].OldestSince != nil
	})
	var taken struct{ Items []struct{ ID int } }
	poll(t, waitLimit, "an item to take", func() bool {
		if err := json.Unmarshal(send("/queues/mail/take", `{"worker":"w","limit":1}`, http.StatusOK),
			&taken); err != nil {
			t.Fatal(err)
		}
		return len(taken.Items) == 1
	})
	await("an item that somebody has", func(q map[string]liveQueue) bool {
		return q["mail"].Ready == 1 &&
			q["mail"].Running == 1
	})
}

// awaitQueues reads snapshots until one holds.
func awaitQueues(t testing.TB, conn *websocket.Conn, what string, holds func(map[string]liveQueue) bool) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(waitLimit)); err != nil {
		t.Fatal(err)
	}
	for last := []byte("none"); ; {
		_, message, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("no snapshot with %s: %v; the last: %s", what, err, last)
		}
		last = message
		var snapshot struct {
			Queues *struct{ Queues []liveQueue }
		}
		if err := json.Unmarshal(message, &snapshot); err != nil || snapshot.Queues == nil {
			t.Fatalf("%v: %s", err, message)
		}
		queues := map[string]liveQueue{}
		for _, q := range snapshot.Queues.Queues {
			queues[q.Name] = q
		}
		if holds(queues) {
			return
		}
	}
}

// testEnqueueRights: a role with the two rights that the documents name adds items
// to the queue mail, and does nothing else there.
func testEnqueueRights(t *testing.T, s *server) {
	owner, err := pgx.Connect(t.Context(), s.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())
	dsn := url.URL{
		Scheme: "postgres", User: url.UserPassword("analyst", s.secret("postgres/analyst-password")),
		Host: s.ports.Postgres, Path: "/millrace",
		RawQuery: "default_transaction_read_only=off",
	}
	service, err := pgx.Connect(t.Context(), dsn.String())
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close(t.Context())
	denied := func(sql string) {
		t.Helper()
		var refused *pgconn.PgError
		if _, err := service.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v, want that permission is denied", sql, err)
		}
	}
	const enqueue = `SELECT * FROM millrace.enqueue('mail', '[{"payload": 1, "key": "rights"}]')`
	denied(enqueue)
	_, err = owner.Exec(t.Context(), `GRANT USAGE ON SCHEMA millrace TO analyst; GRANT EXECUTE ON FUNCTION `+
		`millrace.enqueue(text, json) TO analyst`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.Exec(t.Context(), enqueue); err != nil {
		t.Fatal(err)
	}
	denied("UPDATE millrace.item SET status = 'done'")
	denied("INSERT INTO millrace.item_key (stage, key, item_id) VALUES (100, 'theirs', 1)")
	denied("DELETE FROM millrace.stage")
	found := get[struct{ Items []struct{ State string } }](s, "/queues/mail/items", "key=rights")
	if len(found.Items) != 1 || found.Items[0].State != "new" {
		t.Errorf("%+v", found)
	}
}
