package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// testProducers: whoever publishes, without a login or with that of a producer, can
// neither govern jobs nor erase dead letters.
func testProducers(t *testing.T, s *server, login string) {
	t.Run("governing", func(t *testing.T) { testGoverning(t, s, login) })
	t.Run("erasing", func(t *testing.T) { testErasing(t, s, login) })
}

// testProtected repeats attacks over NATS where nobody gets in without a login.
func testProtected(t *testing.T) {
	s := up(t, "AUTH_JWT_SECRET="+attackSecret, "MILLRACE_NATS_USER="+natsUser, "MILLRACE_NATS_PASSWORD="+natsPassword)
	if nc, err := nats.Connect(s.natsURL()); err == nil {
		nc.Close()
		t.Error("a client without a login is admitted")
	}
	testProducers(t, s, stream.RoleProducer)
	s.stop()
}

// The login of Millrace on a protected server.
const natsUser, natsPassword = "mill", "0123456789abcdef"

// as connects with the key of a role, or without a login.
func (s *server) as(t *testing.T, role string) *nats.Conn {
	t.Helper()
	var login []nats.Option
	if role != "" {
		key, err := nats.NkeyOptionFromSeed(filepath.Join(s.data, "nats", "keys", role+".nk"))
		if err != nil {
			t.Fatal(err)
		}
		login = append(login, key)
	}
	nc, err := nats.Connect(s.natsURL(), login...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// admin asks the API as an administrator, and reads the answer, which has to have a
// status.
func admin[T any](t *testing.T, s *server, method, target, body string, want int) (answer T) {
	t.Helper()
	ask := func() (int, []byte) { return s.with(t, token(t, "admin read work"), method, target, body) }
	status, text := s.patient(t, method+" "+target, ask)
	if status != want {
		t.Fatalf("%s %s: %d %.500s, want %d", method, target, status, text, want)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s %s: %.500s: %v", method, target, text, err)
	}
	return answer
}

type governed struct {
	Status    string `json:"status"`
	RateLimit int    `json:"rate_limit"`
	MaxDepth  int    `json:"max_depth"`
	URL       string `json:"url"`
}

// sourceEvent is an event about a source, as anybody can write it.
func sourceEvent(kind, id, at, payload string) []byte {
	return fmt.Appendf(nil, `{"event_id":%q,"event_type":%q,"source_id":%q,"timestamp":%q,"payload":%s}`,
		uuid.NewString(), kind, id, at, payload)
}

const (
	muchFaster = `{"changed_fields":["rate_limit","url"],"current":{"rate_limit":999,"url":"https://evil.example"}}`
	lastMoment = "9999-12-31T23:59:59Z"
	afterLast  = "9999-12-31T23:59:59-23:59"
)

// testGoverning: forged events about a source change nothing, whoever publishes them
// who may not. Those of the role that may do not count when they are from the future.
func testGoverning(t *testing.T, s *server, login string) {
	made := admin[crawlSource](t, s, http.MethodPost, "/sources", `{"name":"mine","url":"https://example.com/mine"}`,
		http.StatusCreated)
	job := func() governed {
		status, text := s.get(t, token(t, "read"), "/jobs/by-source/"+made.ID)
		var answer struct{ Job governed }
		if status == http.StatusOK {
			if err := json.Unmarshal(text, &answer); err != nil {
				t.Fatal(err)
			}
		}
		return answer.Job
	}
	poll(t, waitLimit, "the job", func() bool { return job().RateLimit == 10 })
	watch, err := s.watcher(t).SubscribeSync(stream.SourceSubjects)
	if err != nil {
		t.Fatal(err)
	}
	attacker := s.as(t, login)
	for _, at := range []string{time.Now().UTC().Format(time.RFC3339), lastMoment, afterLast} {
		for kind, payload := range map[string]string{
			"SOURCE_UPDATED": muchFaster, "SOURCE_DISABLED": `{"reason":"x"}`, "SOURCE_DELETED": `{"name":"mine"}`,
		} {
			event := sourceEvent(kind, made.ID, at, payload)
			if err := attacker.Publish("sources."+kind, event); err != nil {
				t.Fatal(err)
			}
			// As the place for an answer to what it may publish.
			if err := attacker.PublishRequest("events.crawled.00", "sources."+kind, event); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := attacker.FlushTimeout(waitLimit); err != nil {
		t.Fatal(err)
	}
	governor, err := jetstream.New(s.as(t, stream.RoleSources))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{lastMoment, time.Now().Add(6 * time.Minute).UTC().Format(time.RFC3339)} {
		ack, err := governor.Publish(t.Context(), "sources.SOURCE_DELETED",
			sourceEvent("SOURCE_DELETED", made.ID, at, `{"name":"mine"}`))
		if err != nil {
			t.Fatal(err)
		}
		s.isLetter(t, fmt.Sprint("SOURCES/", ack.Sequence), "timestamp", "time_future")
	}
	admin[crawlSource](t, s, http.MethodPut, "/sources/"+made.ID, `{"max_depth":4}`, http.StatusOK)
	poll(t, waitLimit, "the job to follow", func() bool { return job().MaxDepth == 4 })
	if j := job(); j.RateLimit != 10 || j.URL != "https://example.com/mine" || j.Status == "paused" {
		t.Errorf("%q has governed the job: %+v", login, j)
	}
	for n := 0; ; n++ { // those of the role, and then that of the change
		m, err := watch.NextMsg(waitLimit)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), `"max_depth"`) {
			if n != 2 {
				t.Errorf("%d events of others are on the stream, want the 2 of the role", n)
			}
			return
		}
	}
}

// watcher connects as Millrace does.
func (s *server) watcher(t *testing.T) *nats.Conn {
	t.Helper()
	if _, err := nats.NkeyOptionFromSeed(filepath.Join(s.data, "nats", "keys", stream.RoleMillrace+".nk")); err == nil {
		return s.nats()
	}
	nc, err := nats.Connect(s.natsURL(), nats.UserInfo(natsUser, natsPassword))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// isLetter waits for a dead letter and holds it to its field and rule.
func (s *server) isLetter(t *testing.T, id, field, code string) {
	t.Helper()
	var letter struct{ Field, Code string }
	poll(t, waitLimit, "the letter "+id, func() bool {
		status, text := s.get(t, token(t, "admin"), "/dlq/"+id)
		return status == http.StatusOK && json.Unmarshal(text, &letter) == nil
	})
	if letter.Field != field || letter.Code != code {
		t.Errorf("the letter %s is %+v, want %s=%s", id, letter, field, code)
	}
}

// testErasing: a replay takes effect, whatever messages others have published before
// under ids that they can guess.
func testErasing(t *testing.T, s *server, login string) {
	attacker, err := jetstream.New(s.as(t, login))
	if err != nil {
		t.Fatal(err)
	}
	const file = "20250101000000"
	report := fmt.Appendf(nil, `{"filename":%q}`, file)
	ack, err := attacker.Publish(t.Context(), "shards.event-ingest.done", report)
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprint("SHARDS/", ack.Sequence)
	s.isLetter(t, id, "filename", "refused")
	for _, taken := range []string{"replay/" + id, id, fmt.Sprint(ack.Sequence)} {
		for _, body := range [][]byte{report, []byte("x")} { // of the second, nothing is stored
			if _, err := attacker.Publish(t.Context(), "shards.event-ingest.done", body,
				jetstream.WithMsgID(taken)); err != nil {
				t.Fatal(err)
			}
		}
	}
	admin[struct{}](t, s, http.MethodPost, "/pipeline/files/register", fmt.Sprintf(`{"filename":%q,"shards":[0]}`, file),
		http.StatusOK)
	type replay struct{ Replayed, Duplicates, Deleted int }
	if r := admin[replay](t, s, http.MethodPost, "/dlq/replay", fmt.Sprintf(`{"ids":[%q]}`, id),
		http.StatusOK); r != (replay{1, 0, 1}) {
		t.Errorf("replayed: %+v", r)
	}
	type state struct {
		Shards []struct {
			Status string `json:"event_ingest_status"`
		}
	}
	poll(t, waitLimit, "the replay to take effect", func() bool {
		all := admin[state](t, s, http.MethodGet, "/pipeline/files/"+file, "", http.StatusOK).Shards
		return len(all) == 1 && all[0].Status == "done"
	})
}
