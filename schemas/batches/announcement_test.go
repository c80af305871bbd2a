package batches

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/schemas/object"
)

func TestReadAnnouncement(t *testing.T) {
	for text, want := range map[string]Announcement{
		`{"event_id":"evt_1","payload":{"minio_path":"crawls/tiktok/a.json","project_id":"p","job_id":"p-brand-0",
			"batch_index":3,"content_count":50,"platform":"tiktok","task_type":"research_and_crawl","keyword":"VF8"}}`: {
			Batch: ID{"p-brand-0", 3}, Object: object.Name{Bucket: "crawls", Key: "tiktok/a.json"}, Count: 50, Project: "p",
			Platform: "tiktok", TaskType: "research_and_crawl", Keyword: "VF8",
		},
		// What is not said, or null; an event stays one beside a data_ref and items.
		`{"payload":{"minio_path":"b1/k","job_id":"j","batch_index":0,"project_id":null,"content_count":null},
			"data_ref":{},"items":[]}`: {Batch: ID{"j", 0}, Object: object.Name{Bucket: "b1", Key: "k"}, Count: -1},
		`{"payload":"minio_path","data_ref":{"bucket":"b1","path":"a/b.json"}}`: {
			Format: Legacy, Batch: ID{"legacy:b1/a/b.json", 0}, Object: object.Name{Bucket: "b1", Key: "a/b.json"}, Count: -1,
		},
		`{"data_ref":{"bucket":"b1","path":"k"},"job_id":"j","batch_index":2,"content_count":1,"platform":"youtube"}`: {
			Format: Legacy, Batch: ID{"j", 2}, Object: object.Name{Bucket: "b1", Key: "k"}, Count: 1, Platform: "youtube",
		},
		`{"data_ref":{"bucket":"b1","path":"k"},"job_id":"j"}`: {
			Format: Legacy, Batch: ID{"j", 0}, Object: object.Name{Bucket: "b1", Key: "k"}, Count: -1,
		},
		`{"items":[{"id":1}, 2],"job_id":"j","batch_index":2147483647}`: {
			Format: Inline, Batch: ID{"j", 2147483647}, Count: -1, Items: raw(`{"id":1}`, `2`),
		},
	} {
		got, broken := ReadAnnouncement([]byte(text))
		if len(broken) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, %v, want\n%+v", text, got, broken, want)
		}
	}
}

// TestReadAnnouncementRules: a publisher is told every rule that a message breaks, at once.
func TestReadAnnouncementRules(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, c := range []struct{ text, want string }{
		{`[]`, ":json"},
		{`null`, ":json"},
		{``, ":json"},
		{"{\"a\":\"\xff\"}", ":utf8"},
		{`{}`, "items:missing job_id:missing batch_index:missing"},
		{
			`{"items":{},"job_id":7,"batch_index":"1","content_count":-1,"platform":["tiktok"]}`,
			"items:type job_id:type batch_index:type platform:type content_count:range",
		},
		{fmt.Sprintf(`{"items":[%s0],"job_id":"j","batch_index":1}`, strings.Repeat("0,", MaxItems)), "items:too_many"},
		{
			`{"payload":{"minio_path":null}}`,
			"payload.minio_path:missing payload.job_id:missing payload.batch_index:missing",
		},
		{
			`{"payload":{"minio_path":7,"job_id":"j","batch_index":1.5}}`,
			"payload.minio_path:type payload.batch_index:type",
		},
		{
			`{"payload":{"minio_path":"` + long + `","job_id":"` + long + `","batch_index":2147483648}}`,
			"payload.minio_path:length payload.job_id:length payload.batch_index:range",
		},
		{
			`{"payload":{"minio_path":"b1","job_id":"j","batch_index":99999999999999999999}}`,
			"payload.minio_path:object_name payload.batch_index:range",
		},
		{
			`{"payload":{"minio_path":"b1/../b2/k","job_id":"j\u0000","batch_index":0}}`,
			"payload.minio_path:object_name payload.job_id:control_character",
		},
		{`{"data_ref":"b1/k"}`, "data_ref:type"},
		{`{"data_ref":{}}`, "data_ref.bucket:missing data_ref.path:missing"},
		{`{"data_ref":{"bucket":"..","path":"k"}}`, "data_ref:object_name"},
		{
			`{"data_ref":{"bucket":"b1","path":"k"},"batch_index":-1,"job_id":"legacy:b1/k"}`,
			"job_id:reserved batch_index:range",
		},
	} {
		_, broken := ReadAnnouncement([]byte(c.text))
		var got []string
		for _, b := range broken {
			got = append(got, b.Field+":"+b.Code)
			if b.Rule == "" {
				t.Errorf("%.200s: %s has no text", c.text, b.Code)
			}
		}
		if joined := strings.Join(got, " "); joined != c.want {
			t.Errorf("%.200s: %s, want %s", c.text, joined, c.want)
		}
	}
}

func TestObjectNames(t *testing.T) {
	for path, ok := range map[string]bool{
		"crawl-results/tiktok/2026/batch_001.json": true, "my.bucket.name/k": true, "B_1/ключ ключ.json": true,
		"b1/" + strings.Repeat("x", object.MaxKey): true, "b1/..a/a..": true, "b1/a%2f..%2fb": true,
		"": false, "b1": false, "b1/": false, "/b1/k": false, "b/k": false, "b1//k": false, "b1/k/": false, "b1/./k": false,
		"../k": false, "b1/..": false, "b1/a/../../k": false, `b1/..\k`: false, "b1/\xff": false, "b1/\n": false,
		".b1/k": false, "s3://b1/k": false, "b1 /k": false, strings.Repeat("b", 64) + "/k": false,
		"b1/" + strings.Repeat("x", object.MaxKey+1): false,
	} {
		if err := object.ParsePath(path).Check(); (err == nil) != ok {
			t.Errorf("%.100q: %v", path, err)
		}
	}
}

// FuzzReadAnnouncement holds that what breaks no rule has an identity, a name that stays
// within its bucket, and numbers within their bounds.
func FuzzReadAnnouncement(f *testing.F) {
	f.Add([]byte(`{"payload":{"minio_path":"b1/k","job_id":"p-brand-0","batch_index":1,"content_count":50}}`))
	f.Add([]byte(`{"data_ref":{"bucket":"b1","path":"k"}}`))
	f.Add([]byte(`{"items":[{"id":"a"}],"job_id":"j","batch_index":1}`))
	f.Add([]byte(`{"Records":[` + stored("b1", "tiktok/p-b-0/batch_001.json") + `]}`))
	keys, err := ParseKeyPattern(DefaultKeyPattern)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, broken := ReadAnnouncement(text)
		if len(broken) > 0 {
			return
		}
		if a.Format == Notification && (len(a.Records) == 0 || a.Describe(nil, keys) != nil) {
			return
		}
		if a.Batch.Job == "" || a.Batch.Index < 0 || a.Count < -1 || a.Count > MaxItems || len(a.Items) > MaxItems {
			t.Errorf("%+v", a)
		}
		if a.Format == Inline {
			return
		}
		if err := a.Object.Check(); err != nil || slices.Contains(strings.Split(a.Object.String(), "/"), "..") {
			t.Errorf("%+v: %v", a.Object, err)
		}
	})
}
