package batches

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// liveMessage is a message of the live view.
type liveMessage struct {
	Seq       uint64
	Epoch     string
	Unchanged bool
	Batches   *LiveBatches
	Error     *struct{ Errors []struct{ Field string } }
}

// watch subscribes to the view on a connection of its own.
func (s *site) watch(more string) *websocket.Conn {
	s.t.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/live", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	s.t.Cleanup(func() { _ = ws.Close() })
	text := `{"op":"subscribe","id":"a","view":"batches","period":"7d"` + more + "}"
	if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
	return ws
}

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
	if b := m.Batches; b != nil && b.OK+b.Error+b.Retrying != b.ContentCount {
		s.t.Errorf("the sums of %s do not add up", text)
	}
	return m
}

// await returns the first snapshot of so many batches and items that are tried again.
func (s *site) await(ws *websocket.Conn, batches, retrying int64) liveMessage {
	s.t.Helper()
	for {
		m := s.receive(ws)
		if m.Batches == nil {
			s.t.Fatalf("%+v", m)
		}
		if m.Batches.Batches == batches && m.Batches.Retrying == retrying {
			return m
		}
	}
}

// TestLive: subscribers see what GET /batches/summary and GET /batches say, whenever that
// changes, and a reader that comes again gets what is new, or is told that nothing is.
func TestLive(t *testing.T) {
	t.Parallel()
	s := serve(t)
	all, one := s.watch(`,"epoch":""`), s.watch(`,"project_id":"p"`)
	if m := s.await(all, 0, 0); m.Batches.Newest == nil || m.Batches.SuccessRate != nil {
		t.Errorf("%+v", m.Batches)
	}
	s.await(one, 0, 0)
	s.batch("p-b-0", 0, "tiktok", outcome{id: "a"}, outcome{id: "b", code: "TIMEOUT", retrying: true})
	s.await(one, 1, 1)
	s.batch("q-b-0", 0, "youtube", outcome{id: "c", code: "ODD"})
	last := s.await(all, 2, 1)
	if sum := get[BatchesSummary](s, "/batches/summary"); !reflect.DeepEqual(sum, last.Batches.BatchesSummary) {
		t.Errorf("the view shows %+v, and the summary is %+v", last.Batches.BatchesSummary, sum)
	}
	list := get[CrawlBatchPage](s, "/batches").Items
	for i := range list {
		list[i].seq = 0 // what JSON does not have
	}
	if !reflect.DeepEqual(list, last.Batches.Newest) {
		t.Errorf("the view shows %+v, and the list is %+v", last.Batches.Newest, list)
	}
	_ = all.Close()
	again := func() string { return fmt.Sprintf(`,"epoch":%q,"seq":%d`, last.Epoch, last.Seq) }
	all = s.watch(again())
	if m := s.receive(all); !m.Unchanged || m.Seq != last.Seq || m.Epoch != last.Epoch {
		t.Errorf("nothing is new after %d, and one gets %+v", last.Seq, m)
	}
	s.postgres("UPDATE millrace.batch SET ok = ok + 1, retrying = 0, errors = '{}' WHERE retrying = 1")
	s.await(one, 1, 0)
	if m := s.await(all, 2, 0); m.Seq != last.Seq+1 || m.Epoch != last.Epoch || m.Batches.OK != 2 {
		t.Errorf("after %d comes %+v", last.Seq, m)
	}
	_ = all.Close()
	if m := s.receive(s.watch(again())); m.Unchanged || m.Batches == nil || m.Batches.OK != 2 {
		t.Errorf("a reader of the snapshot %d gets %+v", last.Seq, m)
	}
}

// TestLiveRefuses: a parameter that breaks a rule is named, also where it is that of an event stream.
func TestLiveRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for more, field := range map[string]string{
		`,"tz":"Nowhere"`: "tz", `,"job_id":"a\u0000"`: "job_id", `,"state":"failed"`: "state",
		`,"platform":"` + strings.Repeat("x", maxName+1) + `"`: "platform",
	} {
		if m := s.receive(s.watch(more)); m.Error == nil || len(m.Error.Errors) != 1 || m.Error.Errors[0].Field != field {
			t.Errorf("%.40s: %+v", more, m.Error)
		}
	}
	resp, err := http.Get(s.url + "/live/sse?view=batches&period=century")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an invalid period: %s", resp.Status)
	}
}
