package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// crawlSource is a source in an answer.
type crawlSource struct{ ID, Name string }

// TestCrawlSources: the event of each change is on the stream once, also when
// everything is killed after the change has committed: before its event is published,
// and after that, before anybody has noted it.
func TestCrawlSources(t *testing.T) {
	t.Parallel()
	s := up(t)
	a := s.createSource(t, "a")
	s.awaitSourceEvents(t, a.ID+" SOURCE_CREATED")

	release := s.holdOutbox(t)
	published := s.createSource(t, "published")
	s.awaitSourceEvents(t, a.ID+" SOURCE_CREATED", published.ID+" SOURCE_CREATED")
	// The publisher is held while it removes that event.
	committed := s.createSource(t, "committed")
	s.sourceCommand(t, http.MethodPost, "/"+committed.ID+"/disable", "", http.StatusOK)
	s.killParent()
	release()
	s.restart()

	s.sourceCommand(t, http.MethodPut, "/"+a.ID, `{"rate_limit":5}`, http.StatusOK)
	s.sourceCommand(t, http.MethodPost, "/bulk", `{"operation":"delete","ids":["`+published.ID+`"]}`, http.StatusOK)
	s.awaitSourceEvents(
		t, a.ID+" SOURCE_CREATED", published.ID+" SOURCE_CREATED", committed.ID+" SOURCE_CREATED",
		committed.ID+" SOURCE_DISABLED", a.ID+" SOURCE_UPDATED", published.ID+" SOURCE_DELETED",
	)
	list := get[struct{ Items []crawlSource }](s, "/sources", "")
	if want := []crawlSource{a, committed}; !slices.Equal(list.Items, want) {
		t.Errorf("%+v, want %+v", list.Items, want)
	}
	get[struct{ Total int }](s, "/funnel/sources", "") // the other sources
}

func (s *server) createSource(t *testing.T, name string) (made crawlSource) {
	t.Helper()
	text := s.sourceCommand(t, http.MethodPost, "", fmt.Sprintf(`{"name":%q,"url":"https://example.com"}`, name),
		http.StatusCreated)
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	return made
}

func (s *server) sourceCommand(t *testing.T, method, path, body string, want int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url("/api/v1/sources"+path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	status, _, text := s.read(http.DefaultClient.Do(req))
	if status != want {
		t.Fatalf("%s /sources%s: %d %s, want %d", method, path, status, text, want)
	}
	return text
}

// holdOutbox has whoever removes messages from the outbox wait, until the database
// ends. Release ends the session that holds them.
func (s *server) holdOutbox(t *testing.T) (release func()) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), s.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	poll(t, waitLimit, "what was published before to be removed", func() bool {
		var waiting int
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM millrace.message_outbox").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting == 0
	})
	_, err = db.Exec(t.Context(), `SELECT pg_advisory_lock(1);
		CREATE FUNCTION millrace.hold() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(1);
			RETURN NULL;
		END $$;
		CREATE TRIGGER hold BEFORE DELETE ON millrace.message_outbox FOR EACH STATEMENT EXECUTE FUNCTION millrace.hold()`)
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = db.Close(t.Context()) } // its server is gone
}

// awaitSourceEvents waits until the stream has these events and no others, those of
// each source in this order.
func (s *server) awaitSourceEvents(t *testing.T, want ...string) {
	t.Helper()
	js, err := jetstream.New(s.nats())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	poll(t, waitLimit, fmt.Sprint(len(want), " events of sources"), func() bool {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.LastSeq >= uint64(len(want))
	})
	var got []string
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			ID       string `json:"event_id"`
			Type     string `json:"event_type"`
			SourceID string `json:"source_id"`
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if m.Subject != "sources."+e.Type || m.Header.Get(jetstream.MsgIDHeader) != e.ID {
			t.Errorf("%s has %s on %s", m.Header, m.Data, m.Subject)
		}
		got = append(got, e.SourceID+" "+e.Type)
	}
	bySource := func(a, b string) int {
		return strings.Compare(a[:strings.IndexByte(a, ' ')], b[:strings.IndexByte(b, ' ')])
	}
	slices.SortStableFunc(got, bySource)
	slices.SortStableFunc(want, bySource)
	if !slices.Equal(got, want) {
		t.Fatalf("the stream has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
