package batches_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/schemas/batches"
)

// TestPolicies: the specification's categories that are retried, each in a queue of its own,
// and generic errors once.
func TestPolicies(t *testing.T) {
	for category, want := range map[batches.Category]struct {
		queue     string
		attempts  int
		automatic bool
	}{
		batches.RateLimiting: {"recrawl-rate-limiting", 5, true},
		batches.Network:      {"recrawl-network", 5, true},
		batches.Storage:      {"recrawl-storage", 5, true},
		batches.Generic:      {"recrawl-generic", 1, true},
		batches.Content:      {"recrawl-generic", 1, false},
		batches.Parsing:      {"recrawl-generic", 1, false},
		batches.Media:        {"recrawl-generic", 1, false},
	} {
		p, automatic := category.Retry()
		if p.Queue != want.queue || len(p.Waits) != want.attempts || automatic != want.automatic {
			t.Errorf("%s: %+v, %v", category, p, automatic)
		}
	}
}

// TestReadRetry: a retry is about the item that was to be tried, if that has an id.
func TestReadRetry(t *testing.T) {
	for _, c := range []struct {
		said, id, want string
	}{
		{`{"content_id":"7","fetch_status":"success"}`, "7", "7  "},
		{`{"id":7,"fetch_status":"error","error_code":"TIMEOUT"}`, "7", "7 network TIMEOUT"},
		{`{"content_id":"8","fetch_status":"success"}`, "7", "7 parsing PARSE_ERROR"},
		{`{"content_id":"8","fetch_status":"success"}`, "", "8  "},
		{`{"fetch_status":"success"}`, "7", " parsing PARSE_ERROR"},
		{``, "7", " parsing PARSE_ERROR"},
	} {
		o := batches.ReadRetry([]byte(c.said), c.id)
		if got := o.ContentID + " " + string(o.Category) + " " + o.Code; got != c.want {
			t.Errorf("%s for %q is %q, want %q", c.said, c.id, got, c.want)
		}
	}
}

// TestTask: a task fits into a queue, whatever its item says.
func TestTask(t *testing.T) {
	long := strings.Repeat("<", batches.MaxTaskText)
	a := batches.Announcement{Batch: batches.ID{Job: "p-b-0", Index: 2}, Keyword: "k"}
	o := batches.Outcome{
		ContentID: "7", Permalink: long + "x", Keyword: long, Code: "A\x00", Category: batches.Generic,
	}
	form, err := json.Marshal(batches.TaskOf(&a, 3, &o))
	if err != nil || len(form) > 64<<10 || strings.Contains(string(form), `\u0000`) {
		t.Errorf("%d bytes, %v", len(form), err)
	}
	var task batches.Task
	if err := json.Unmarshal(form, &task); err != nil {
		t.Fatal(err)
	}
	if task.Permalink != "" || task.KeywordSource != long || task.Position != 3 || task.ProjectID != "p" {
		t.Errorf("%+v", task)
	}
}

// TestReadOfRetry: the outcome of a retry is the same behind its binary form, and a retry is
// about one item.
func TestReadOfRetry(t *testing.T) {
	want := example(t)
	want.Items = want.Items[1:2]
	want.Retry = &batches.Retry{Position: 7, Version: 2, ReadAt: 5}
	form, err := want.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := batches.ParseRead(form); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	for _, wrong := range []batches.Retry{{Position: -1, Version: 1}, {Position: batches.MaxItems, Version: 1}, {}} {
		r := *want
		r.Retry = &wrong
		if form, err = r.Append(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := batches.ParseRead(form); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}
