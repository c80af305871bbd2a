package batches

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/schemas/object"
)

// stored is a record which says that an object was stored.
func stored(bucket, key string) string {
	return fmt.Sprintf(`{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":%q},"object":{"key":%q}}}`, bucket, key)
}

// TestNotification reads what MinIO, AWS and versitygw send.
func TestNotification(t *testing.T) {
	for text, want := range map[string]string{
		// MinIO's, with a key beside the records.
		`{"EventName":"s3:ObjectCreated:Put","Key":"crawls/tiktok/a b.json","Records":[{"eventVersion":"2.0",
			"eventSource":"minio:s3","awsRegion":"","eventTime":"2026-02-10T14:30:00.000Z","eventName":"s3:ObjectCreated:Put",
			"userIdentity":{"principalId":"minio"},"s3":{"s3SchemaVersion":"1.0","configurationId":"Config",
			"bucket":{"name":"crawls","ownerIdentity":{"principalId":"minio"},"arn":"arn:aws:s3:::crawls"},
			"object":{"key":"tiktok%2Fa+b%2Bc%25.json","size":3,"eTag":"x","sequencer":"17"}}}]}`: "crawls/tiktok/a b+c%.json 1",
		`{"Records":[` + stored("my.crawls", "j-b-0/1.json") + `]}`:         "my.crawls/j-b-0/1.json 1",
		`{"Records":[` + stored("b1", "a") + "," + stored("b2", "b") + `]}`: "b1/a 2",
		`{"Records":[{"eventName":"s3:ObjectCreated:CompleteMultipartUpload","s3":{"bucket":{"name":"b1"},
			"object":{"key":"%D0%BA"}}}]}`: "b1/к 1",
		`{"Records":[{"eventName":"ObjectRemoved:Delete","s3":{"bucket":{"name":"b1"},"object":{"key":"a"}}},
			` + stored("b2", "b") + `]}`: "b2/b 1",
		`{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-02-10T14:30:00.000Z","Bucket":"b1"}`: "/ 0",
		`{"Records":[]}`:   "/ 0",
		`{"Records":null}`: "/ 0",
	} {
		a, broken := ReadAnnouncement([]byte(text))
		got := fmt.Sprint(a.Object, " ", len(a.Records))
		if len(broken) > 0 || got != want || a.Format != Notification || a.Count != -1 {
			t.Errorf("%s: %s, %v, want %s", text, got, broken, want)
		}
		for _, one := range a.Records {
			if b, broken := ReadAnnouncement(Alone(one)); len(broken) > 0 || len(b.Records) != 1 {
				t.Errorf("%s alone: %+v, %v", one, b, broken)
			}
		}
	}
	for text, want := range map[string]string{
		`{"Records":7}`: "Records:type",
		`{"Records":[7,` + stored("b1", "%zz") + `]}`:                                     "Records[0]:type Records[1].s3:object_name",
		`{"Records":[` + stored("b1", "..%2Fb2%2Fa") + `,` + stored("", "a") + `]}`:       "Records[0].s3:object_name Records[1].s3:object_name",
		`{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":"b1","object":1}}]}`: "Records[0]:type",
	} {
		if _, broken := ReadAnnouncement([]byte(text)); names(broken) != want {
			t.Errorf("%s: %s, want %s", text, names(broken), want)
		}
	}
}

// TestMixedNotification: what is wrong with one record keeps no other one from being read. Each is a message of its own.
func TestMixedNotification(t *testing.T) {
	a, broken := ReadAnnouncement([]byte(`{"Records":[7,` + stored("b1", "a//b") + `,` + stored("b2", "a") + `,` + stored("b3", "b") + `]}`))
	if len(broken) > 0 || a.Object != (object.Name{Bucket: "b2", Key: "a"}) || len(a.Records) != 4 {
		t.Fatalf("%+v, %v", a, broken)
	}
	var alone []string
	for _, one := range a.Records {
		_, broken := ReadAnnouncement(Alone(one))
		alone = append(alone, names(broken))
	}
	if want := []string{"Records[0]:type", "Records[0].s3:object_name", "", ""}; !slices.Equal(alone, want) {
		t.Errorf("alone they break %q, want %q", alone, want)
	}
}

func names(broken []Invalid) string {
	var all []string
	for _, b := range broken {
		all = append(all, b.Field+":"+b.Code)
	}
	return strings.Join(all, " ")
}

// TestDescribe: an object says which batch it holds by its metadata, or else by its key.
func TestDescribe(t *testing.T) {
	byDefault, err := ParseKeyPattern(DefaultKeyPattern)
	if err != nil {
		t.Fatal(err)
	}
	deep, err := ParseKeyPattern(`/(?P<job>[^/]+)/(?P<index>\d+)$`)
	if err != nil {
		t.Fatal(err)
	}
	type said = map[string]string
	for _, c := range []struct {
		key      string
		metadata said
		pattern  KeyPattern
		want     Announcement
	}{
		{
			"tiktok/p-b-0/batch_010.json.gz", nil, byDefault,
			Announcement{Batch: ID{"p-b-0", 10}, Platform: "tiktok", Count: -1},
		},
		{"p-b-0/000.json", nil, byDefault, Announcement{Batch: ID{"p-b-0", 0}, Count: -1}},
		{
			"tiktok/p-b-0/7.json",
			said{"Job-Id": "q-b-1", "Platform": "youtube"},
			byDefault,
			Announcement{Batch: ID{"q-b-1", 7}, Platform: "youtube", Count: -1},
		},
		{
			"any/thing",
			said{
				"job_id": "p-b-0", "BATCH-INDEX": "003", "Content-Count": "20", "project-id": "p", "task_type": "dryrun_keyword",
				"keyword": "VinFast VF8", "other": "x", "platform": "",
			},
			byDefault,
			Announcement{
				Batch: ID{"p-b-0", 3}, Count: 20, Project: "p", TaskType: "dryrun_keyword", Keyword: "VinFast VF8",
			},
		},
		{"a/b/c/p-b-0/12", nil, deep, Announcement{Batch: ID{"p-b-0", 12}, Count: -1}},
	} {
		a := Announcement{Format: Notification, Object: object.Name{Bucket: "b1", Key: c.key}}
		c.want.Format, c.want.Object = a.Format, a.Object
		if broken := a.Describe(c.metadata, c.pattern); len(broken) > 0 || !reflect.DeepEqual(a, c.want) {
			t.Errorf("%s %v: %+v, %v, want %+v", c.key, c.metadata, a, broken, c.want)
		}
		if err := a.check(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	for _, c := range []struct {
		key      string
		metadata said
		want     string
	}{
		{"tiktok/p/brand/batch_001.json", nil, "Records[0].s3.object.key:object_unnamed"},
		{"tiktok/p-b-0/batch_001.json", said{"batch-index": "one"}, "metadata.batch_index:type"},
		{"p-b-0/99999999999.json", nil, "metadata.batch_index:range"},
		{"a", said{"job-id": "p-b-0"}, "Records[0].s3.object.key:object_unnamed"},
		{"legacy:b1/3.json", nil, "metadata.job_id:reserved"},
		{"p/1.json", said{"job-id": strings.Repeat("x", MaxJob+1), "content-count": "-1"}, "metadata.job_id:length metadata.content_count:type"},
	} {
		a := Announcement{Format: Notification, Object: object.Name{Bucket: "b1", Key: c.key}}
		if got := names(a.Describe(c.metadata, byDefault)); got != c.want {
			t.Errorf("%s %.80v: %s, want %s", c.key, c.metadata, got, c.want)
		}
	}
	for _, bad := range []string{"(", "(?P<job>a)", "(?P<index>a)", ""} {
		if _, err := ParseKeyPattern(bad); err == nil {
			t.Errorf("the pattern %q is accepted", bad)
		}
	}
}

// TestFormatNames: each format has a name of its own, and what was read of it can be written.
func TestFormatNames(t *testing.T) {
	var all []string
	for f := Event; f <= Notification; f++ {
		all = append(all, f.String())
	}
	if !slices.Equal(all, []string{"event", "legacy", "inline", "notification"}) {
		t.Error(all)
	}
}
