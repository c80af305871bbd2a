package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// sentBatch is a batch that was announced.
type sentBatch struct {
	job                 string
	index               int
	ok, error, retrying int // nobody takes what is to be retried
}

// batchNow is what Millrace says of a batch.
type batchNow struct {
	Count    int `json:"content_count"`
	OK       int
	Error    int
	Retrying int
}

const batchItems = 20

// makeBatch returns the items of the nth batch, of which some are errors.
func makeBatch(n int) (b sentBatch, items string) {
	b = sentBatch{job: fmt.Sprintf("proj_%d-brand-%d", n%7, n%3), index: n}
	list := make([]string, batchItems)
	for i := range list {
		id := fmt.Sprintf(`{"content_id":"%d-%d","platform":"tiktok"`, n, i)
		switch (n + i) % 6 {
		case 0:
			b.retrying++
			list[i] = id + `,"fetch_status":"error","error_code":"RATE_LIMITED"}`
		case 1:
			b.error++
			list[i] = id + `,"fetch_status":"unheard-of"}`
		default:
			b.ok++
			list[i] = id + `,"fetch_status":"success"}`
		}
	}
	return b, "[" + strings.Join(list, ",") + "]"
}

// TestCrawlBatches: of batches that were announced in all formats, some of them twice, each item
// has one outcome, though Millrace is killed, formats are switched off for a while, and
// objects come later than their announcements.
func TestCrawlBatches(t *testing.T) {
	t.Parallel()
	s := up(t)
	send := func(method, path, body string, want ...int) {
		t.Helper()
		var status int
		var answer []byte
		s.retry(t, method+" "+path, func() (busy bool) {
			status, answer = s.with(t, "", method, path, body)
			return status == http.StatusServiceUnavailable
		})
		if slices.Contains(want, status) {
			return
		}
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	const batches = 90
	var all []sentBatch
	for n := range batches {
		b, items := makeBatch(n)
		all = append(all, b)
		key := fmt.Sprintf("%s/batch_%03d.json", b.job, n)
		store := func() { send(http.MethodPut, "/objects/crawl-results/"+key, items, 201, 200) }
		message := fmt.Sprintf(`{"job_id":%q,"batch_index":%d,"platform":"tiktok","items":%s}`, b.job, n, items)
		switch n % 3 {
		case 1:
			message = fmt.Sprintf(`{"payload":{"minio_path":"crawl-results/%s","job_id":%q,"batch_index":%d,`+
				`"content_count":%d,"platform":"tiktok"}}`, key, b.job, n, batchItems)
		case 2:
			message = fmt.Sprintf(`{"data_ref":{"bucket":"crawl-results","path":%q},"job_id":%q,"batch_index":%d}`,
				key, b.job, n)
		}
		late := n%5 == 0
		if !late {
			store()
		}
		for range 1 + n%2 {
			send(http.MethodPost, "/batches", message, 202)
		}
		if late {
			store()
		}
		switch n {
		case 20:
			send(http.MethodPut, "/batches/modes", `{"new_mode":false}`, 200)
		case 40, 70:
			s.killParent()
			s.restart()
		case 60:
			send(http.MethodPut, "/batches/modes", `{"new_mode":true}`, 200)
		}
	}
	for _, b := range all {
		path := fmt.Sprintf("/batches/%s/%d", b.job, b.index)
		poll(t, waitLimit, path, func() bool {
			status, _, body := s.fetch(path)
			if status != http.StatusOK {
				return false
			}
			var now batchNow
			if err := json.Unmarshal(body, &now); err != nil {
				t.Fatal(err)
			}
			if want := (batchNow{batchItems, b.ok, b.error, b.retrying}); now != want {
				t.Fatalf("%s: %+v, want %+v", path, now, want)
			}
			return true
		})
	}
	for _, n := range []int{0, 41, 89} {
		item := get[struct{ Others []any }](s, fmt.Sprintf("/batch-items/%d-3", n), "")
		if len(item.Others) != 0 {
			t.Errorf("an item of batch %d has %d other outcomes", n, len(item.Others))
		}
	}
}
