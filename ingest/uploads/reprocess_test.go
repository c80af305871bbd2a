package uploads

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// settle gives items final statuses and attempts, as processors would have.
func (s *site) settle(j uploads.Job, status schema.Status, attempts int, rows string) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), `UPDATE millrace.upload_item SET status = $2, attempts = $3
		WHERE job_no = $1 AND `+rows, j.No, int16(status), attempts); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.pool.Exec(s.t.Context(), `UPDATE millrace.upload SET (done, error, not_found, skipped) = (SELECT
		count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3), count(*) FILTER (WHERE status = 4),
		count(*) FILTER (WHERE status = 5) FROM millrace.upload_item WHERE job_no = $1) WHERE no = $1`, j.No); err != nil {
		s.t.Fatal(err)
	}
}

// TestReprocess: what failed and has attempts left is processed again, or what is named.
func TestReprocess(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	stop := s.run(schema.Bounds{})
	text, _ := sample(25_000)
	id := s.made("x.csv", []byte(text))
	j := s.until(id, "it has ended", ended)
	stop()
	n := j.Counts[schema.StatusDone]
	s.settle(j, schema.Error, 1, "row_no <= 12000")
	s.settle(j, schema.Error, 5, "row_no BETWEEN 12001 AND 12010") // no attempts are left
	s.settle(j, schema.NotFound, 2, "row_no BETWEEN 12011 AND 12020")
	s.settle(j, schema.Skipped, 1, "row_no BETWEEN 12021 AND 12030")
	again := func(body string, want int) (out ReprocessedUpload) {
		t.Helper()
		status, text := s.send(http.MethodPost, "/api/jobs/"+id.String()+"/reprocess", "application/json", strings.NewReader(body))
		if err := json.Unmarshal([]byte(text), &out); err != nil || status != 200 || out.Reprocessed != want || out.More {
			t.Fatalf("%s: %d %s, want %d items", body, status, text, want)
		}
		return out
	}
	if out := again("", 12_000); out.QueueState != schema.Queued || out.Pending != 12_000 {
		t.Errorf("%+v", out)
	}
	again("", 0)
	again(`{"resetAttempts":true,"statuses":["NOT_FOUND"]}`, 10)
	again(fmt.Sprintf(`{"scope":"items","itemIds":["%[1]s-12001","%[1]s-13000","%[1]s-12022","%[1]s-999999"],
		"statuses":["ERROR","SKIPPED"],"resetAttempts":true}`, id), 2)
	again(`{"statuses":["DONE"]}`, int(n)-12_030)
	s.run(schema.Bounds{})
	j = s.until(id, "it has ended again", ended)
	if j.State != schema.Done || j.Counts[schema.StatusDone] != n-18 || j.Counts[schema.Error] != 9 || j.Counts[schema.Skipped] != 9 {
		t.Errorf("%s, %v, of %d", j.State, j.Counts, n)
	}
	var attempts int
	if err := s.pool.QueryRow(t.Context(), "SELECT attempts FROM millrace.upload_item WHERE job_no = $1 AND row_no = 12015",
		j.No).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("%d attempts of an item whose attempts were reset, %v", attempts, err)
	}
}

// TestReprocessRules: what a request breaks is named, and neither a cancelled upload nor another's goes on.
func TestReprocessRules(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret}, uploads.Limits{})
	s.token("ann", auth.Uploads)
	id := s.made("x.csv", []byte("a,b\n1,2\n"))
	post := func(id, what, body string) (int, string) {
		return s.send(http.MethodPost, "/api/v1/uploads/"+id+what, "application/json", strings.NewReader(body))
	}
	for body, want := range map[string]string{
		`{"scope":"some"}`: "scope", `{"scope":"items"}`: "itemIds", `{"itemIds":["x-1"]}`: "itemIds",
		`{"statuses":["PENDING"]}`:                                              "statuses[0]",
		`{"scope":"items","itemIds":["x-1"]}`:                                   "itemIds[0]",
		`{"scope":"items","itemIds":["` + id.String() + `-0"]}`:                 "itemIds[0]",
		`{"scope":"items","itemIds":["` + uuid.NewString() + `-1"],"status":1}`: "status",
	} {
		status, text := post(id.String(), "/reprocess", body)
		var p httpapi.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || status != 400 || !strings.Contains(text, `"`+want+`"`) {
			t.Errorf("%s: %d %s, want %s", body, status, text, want)
		}
	}
	if status, text := post(id.String(), "/export?format=xlsx&exact=true", ""); status != 202 ||
		!strings.Contains(text, `"link":"exports/`) || !strings.Contains(text, `"state":"QUEUED"`) {
		t.Errorf("%d %s", status, text)
	}
	s.token("eve", auth.Uploads)
	for _, what := range []string{"/reprocess", "/export"} {
		if status, text := post(id.String(), what, ""); status != 404 {
			t.Errorf("%s of another's upload: %d %s", what, status, text)
		}
	}
	s.token("ann", auth.Uploads)
	if status, text := post(id.String(), "/cancel", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := post(id.String(), "/reprocess", ""); status != 409 {
		t.Errorf("a cancelled upload: %d %s", status, text)
	}
}

// TestRetention: uploads that ended long ago are gone with all that they had, and others are not.
func TestRetention(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	stop := s.run(schema.Bounds{})
	old, fresh := s.made("x.csv", []byte("a,b\n1,2\n")), s.made("y.csv", []byte("a,b\n1,2\n"))
	held := s.made("z.csv", []byte("a,b\n1,2\n"), "hold", "true")
	for _, id := range []uuid.UUID{old, fresh} {
		s.until(id, "it has ended", ended)
	}
	stop()
	if _, err := s.pool.Exec(t.Context(), `UPDATE millrace.upload SET finished_at = finished_at - interval '49 hours',
		created_at = created_at - interval '49 hours' WHERE id <> $1`, fresh); err != nil {
		t.Fatal(err)
	}
	s.runAs(RunnerConfig{Keep: 48 * time.Hour})
	for end := time.Now().Add(time.Minute); ; {
		var rows, jobs int
		if err := s.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM millrace.upload_item), (SELECT count(*) FROM millrace.upload)").
			Scan(&rows, &jobs); err != nil {
			t.Fatal(err)
		}
		if rows == 1 && jobs == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d items of %d uploads are left", rows, jobs)
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.job(fresh)
	if j := s.job(held); j.State != schema.Paused {
		t.Error(j.State)
	}
	if _, err := s.files.Open(t.Context(), old); !uploads.Lost(err) {
		t.Errorf("the file of a deleted upload: %v", err)
	}
}
