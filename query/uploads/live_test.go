package uploads

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// liveMessage is a message of the live view.
type liveMessage struct {
	Seq       uint64
	Epoch     string
	Unchanged bool
	Uploads   *UploadPage
	Error     *struct{ Errors []struct{ Field string } }
}

// watch subscribes to the view on a connection of its own, with the site's present token.
func (s *site) watch(more string) *websocket.Conn {
	s.t.Helper()
	header := http.Header{}
	if s.bearer != "" {
		header.Set("Authorization", "Bearer "+s.bearer)
	}
	ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/api/v1/live", header)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	s.t.Cleanup(func() { _ = ws.Close() })
	if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","id":"a","view":"uploads"`+more+"}")); err != nil {
		s.t.Fatal(err)
	}
	return ws
}

// receive returns the next message, in whose uploads counters must add up.
func (s *site) receive(ws *websocket.Conn) (m liveMessage) {
	s.t.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
	_, text, err := ws.ReadMessage()
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	if m.Uploads == nil {
		return m
	}
	for _, u := range m.Uploads.Items {
		of := u.Statuses
		if of.Pending+of.Processing+u.Processed != u.TotalItems || of.Error+of.NotFound != u.FailedItems {
			s.t.Errorf("the counters of %s do not add up", text)
		}
	}
	return m
}

// await returns the first snapshot that shows so many uploads with so many processed items together.
func (s *site) await(ws *websocket.Conn, all, processed int) liveMessage {
	s.t.Helper()
	for {
		m := s.receive(ws)
		if m.Unchanged {
			continue
		}
		if m.Uploads == nil {
			s.t.Fatalf("%+v", m)
		}
		n := 0
		for _, u := range m.Uploads.Items {
			n += int(u.Processed)
		}
		if len(m.Uploads.Items) == all && n == processed {
			return m
		}
	}
}

// TestLive: subscribers see what the list and the upload itself show, whenever that changes, and a reader that comes
// again gets what is new, or is told that nothing is.
func TestLive(t *testing.T) {
	t.Parallel()
	s := serve(t, auth.Config{})
	all := s.watch(`,"epoch":""`)
	s.await(all, 0, 0)
	first := s.fill("", "a.csv", table(120), nil)
	one := s.watch(fmt.Sprintf(`,"jobId":%q`, first.ID))
	s.await(one, 1, 0)
	s.fill("", "b.csv", table(30), nil)
	s.await(all, 2, 0)
	for range 12 {
		if _, err := s.store.Move(t.Context(), first, schema.StatusDone, 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	s.await(one, 1, 120)
	if _, _, err := s.store.Finish(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	last := s.await(all, 2, 120)
	for last.Uploads.Items[1].QueueState != schema.Done {
		last = s.receive(all)
	}
	if list := read[UploadPage](s, "/api/v1/uploads?limit=50"); !reflect.DeepEqual(list, *last.Uploads) {
		t.Errorf("the view shows %+v, and the list is %+v", last.Uploads, list)
	}
	m := s.await(one, 1, 120)
	if u := read[uploadsapi.Upload](s, "/api/v1/uploads/"+first.ID.String()); !reflect.DeepEqual(u, m.Uploads.Items[0]) {
		t.Errorf("the view shows %+v, and the upload is %+v", m.Uploads.Items[0], u)
	}
	s.await(s.watch(`,"queue_state":"DONE"`), 1, 120)
	s.await(s.watch(`,"queue_state":"FAILED"`), 0, 0)

	_ = all.Close()
	again := func() *websocket.Conn { return s.watch(fmt.Sprintf(`,"epoch":%q,"seq":%d`, last.Epoch, last.Seq)) }
	if m := s.receive(again()); !m.Unchanged || m.Seq != last.Seq || m.Epoch != last.Epoch {
		t.Errorf("nothing is new after %d, and a reader gets %+v", last.Seq, m)
	}
	s.fill("", "c.csv", table(1), nil)
	if m := s.await(again(), 3, 120); m.Seq <= last.Seq {
		t.Errorf("a reader of the snapshot %d gets %+v", last.Seq, m)
	}
}

// TestLiveOwners (4): a user watches own uploads alone, whatever is asked for and whatever others watch. The scope
// uploads is enough, and read is not.
func TestLiveOwners(t *testing.T) {
	t.Parallel()
	s := serve(t, auth.Config{Secret: secret})
	ann := s.fill("ann", "a.csv", table(3), nil)
	s.token("ann", auth.Uploads)
	hers := s.await(s.watch(`,"epoch":""`), 1, 0)
	s.await(s.watch(fmt.Sprintf(`,"jobId":%q`, ann.ID)), 1, 0)
	s.await(s.watch(`,"user":"ann"`), 1, 0)
	for _, sub := range []string{"bob", "", `ann"`} {
		s.token(sub, auth.Uploads)
		for _, more := range []string{
			"", `,"user":"ann"`, fmt.Sprintf(`,"jobId":%q`, ann.ID), `,"processor":"copy"`, `,"queue_state":"RUNNING"`,
			fmt.Sprintf(`,"epoch":%q,"seq":%d`, hers.Epoch, hers.Seq),
		} {
			if m := s.receive(s.watch(more)); m.Uploads == nil || len(m.Uploads.Items) > 0 || m.Unchanged {
				t.Errorf("%q with %s gets %+v", sub, more, m)
			}
		}
	}
	s.token("boss", auth.Admin)
	s.await(s.watch(""), 1, 0)
	s.await(s.watch(`,"user":"bob"`), 0, 0)
	s.token("ann", auth.Read, auth.EventsWrite)
	if status, text := s.get("/api/v1/live/sse?view=uploads"); status != http.StatusForbidden {
		t.Errorf("a token without the scope: %d %s", status, text)
	}
}

// TestLiveRefuses: a parameter that breaks a rule is named, also where it is that of an event stream.
func TestLiveRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t, auth.Config{})
	id := "0199f0a2-7c1e-7000-8000-000000000001"
	for more, field := range map[string]string{
		`,"queue_state":"open"`: "queue_state", `,"jobId":"7"`: "jobId", `,"jobId":"` + strings.ToUpper(id) + `"`: "jobId",
		`,"jobId":"` + id + `","user":"ann"`: "jobId", `,"processor":"a\u0000"`: "processor",
		`,"user":"` + strings.Repeat("x", 1025) + `"`: "user", `,"limit":5`: "limit",
	} {
		if m := s.receive(s.watch(more)); m.Error == nil || len(m.Error.Errors) != 1 || m.Error.Errors[0].Field != field {
			t.Errorf("%.40s: %+v", more, m.Error)
		}
	}
	resp, err := http.Get(s.url + "/api/v1/live/sse?view=uploads&queue_state=open")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an invalid state: %s %s", resp.Status, text)
	}
}
