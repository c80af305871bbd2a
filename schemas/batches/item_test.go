package batches

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func raw(texts ...string) (items []json.RawMessage) {
	for _, t := range texts {
		items = append(items, json.RawMessage(t))
	}
	return items
}

func TestReadItem(t *testing.T) {
	at := time.Date(2025, 12, 6, 10, 15, 30, 0, time.UTC)
	for text, want := range map[string]Outcome{
		`{"content_id":"a","fetch_status":"success"}`: {ContentID: "a", Status: Success},
		`{"content_id":"6907228749016714497","fetch_status":"success","crawled_at":"2025-12-06T10:15:30Z",
			"permalink":"https://x/1","task_type":"dryrun_keyword","keyword_source":"VF8","pipeline_version":"v3"}`: {
			ContentID: "6907228749016714497", Status: Success, CrawledAt: at, Permalink: "https://x/1",
			TaskType: "dryrun_keyword", Keyword: "VF8", Pipeline: "v3",
		},
		// An id may be a number of any size, and stand under either name.
		`{"id":690722874901671449769072287490167144,"fetch_status":"success"}`: {
			ContentID: "690722874901671449769072287490167144", Status: Success,
		},
		`{"content_id":null,"id":-7,"fetch_status":"success"}`: {ContentID: "-7", Status: Success},
		`{"content_id":"","id":"b","fetch_status":"success"}`:  {ContentID: "b", Status: Success},
		// What crawlers nest; what the item itself says goes first.
		`{"meta":{"id":"a","fetch_status":"error","error_code":"TIMEOUT","fetch_error":"30 s",
			"crawled_at":"2025-12-06T10:15:30Z"},"fetch_error":"60 s","error_details":{"code":0}}`: {
			ContentID: "a", Status: Failure, Category: Network, Code: "TIMEOUT", Message: "60 s", CrawledAt: at,
			Details: json.RawMessage(`{"code":0}`),
		},
		`{"meta":[],"id":"a","fetch_status":"success"}`: {ContentID: "a", Status: Success},
		// Escapes, spaces, and of one name the last member.
		"\n{ \"i\\u0064\" : \"\\u0061\\\"\\\\\" , \"id2\":{\"id\":[\"x\",\"}\"]} ,\t\"fetch_status\": \"success\"\n}\n": {
			ContentID: `a"\`, Status: Success,
		},
		`{"id":"a","fetch_status":"error","fetch_status":"success","permalink":"x","permalink":null}`: {
			ContentID: "a", Status: Success,
		},
		`{"id":"a","meta":{"fetch_status":"error"},"meta":{"fetch_status":"success"}}`: {ContentID: "a", Status: Success},
		// Errors.
		`{"id":"a","fetch_status":"error","error_code":"MEDIA_TOO_LARGE","permalink":"https://x/1"}`: {
			ContentID: "a", Status: Failure, Category: Media, Code: "MEDIA_TOO_LARGE", Permalink: "https://x/1",
		},
		`{"id":"a","fetch_status":"error","error_code":"QUOTA \n"}`: {
			ContentID: "a", Status: Failure, Category: Generic, Code: "QUOTA \n",
		},
		`{"id":"a","fetch_status":"error","error_code":429,"fetch_error":["a",1]}`: {
			ContentID: "a", Status: Failure, Category: Generic, Code: "429", Message: `["a",1]`,
		},
		`{"id":"a","fetch_status":"error"}`: {
			ContentID: "a", Status: Failure, Category: Generic, Code: "UNKNOWN_ERROR",
		},
		`{"id":"a","fetch_status":"error","error_code":""}`: {
			ContentID: "a", Status: Failure, Category: Generic, Code: "UNKNOWN_ERROR",
		},
		`{"id":"a","fetch_status":"success","error_code":"TIMEOUT"}`: {ContentID: "a", Status: Success, Code: "TIMEOUT"},
		// An invalid time does not fail the item.
		`{"id":"a","fetch_status":"success","crawled_at":"13.09"}`:                {ContentID: "a", Status: Success, BadTime: true},
		`{"id":"a","fetch_status":"success","crawled_at":"1605-01-01T00:00:00Z"}`: {ContentID: "a", Status: Success, BadTime: true},
		`{"id":"a","fetch_status":"success","crawled_at":1600819763}`:             {ContentID: "a", Status: Success, BadTime: true},
		`{"id":"a","fetch_status":"success","crawled_at":"9999-12-31T23:59:59-23:59"}`: {
			ContentID: "a", Status: Success, BadTime: true,
		},
	} {
		if got := ReadItem([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", text, got, want)
		}
	}
}

// TestUnreadableItems: what is no item is an error of the category parsing, which keeps what
// could be read and says what is wrong.
func TestUnreadableItems(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for text, want := range map[string]struct{ id, status, says string }{
		``: {"", "", "JSON object"}, `null`: {"", "", "JSON object"}, `7`: {"", "", "JSON object"},
		`"a"`: {"", "", "JSON object"}, `[]`: {"", "", "JSON object"}, `{"id":"a"`: {"", "", "JSON object"},
		`oops`: {"", "", "JSON object"}, "{\"id\":\"\xff\"}": {"", "", "UTF-8"},
		`{"id":"a","fetch_status":"success","x":` + deep + `}`: {"", "", "128 deep"},
		`{"id":"a"}`:                                                    {"a", "", "fetch_status: is required"},
		`{"id":"a","fetch_status":"Success"}`:                           {"a", "Success", `not "Success"`},
		`{"id":"a","fetch_status":true}`:                                {"a", "true", `not "true"`},
		`{"fetch_status":"success"}`:                                    {"", "success", "content_id: is required"},
		`{"id":"","fetch_status":"error","error_code":"TIMEOUT"}`:       {"", "error", "content_id: is required"},
		`{"id":1.5,"fetch_status":"success"}`:                           {"", "success", "id: must be a string or a whole"},
		`{"id":1e3,"fetch_status":"success"}`:                           {"", "success", "id: must be a string or a whole"},
		`{"content_id":{},"id":"a","fetch_status":"success"}`:           {"", "success", "content_id: must be a string"},
		`{"id":"a\u0000","fetch_status":"success"}`:                     {"", "success", "control"},
		`{"id":"` + strings.Repeat("x", 4097) + `","fetch_status":"x"}`: {"", "x", "not \"x\"; id: must be at most"},
	} {
		got := ReadItem([]byte(text))
		if got.OK() || got.Category != Parsing || got.Code != ParseError || got.ContentID != want.id ||
			got.Status != want.status || !strings.Contains(got.Message, want.says) {
			t.Errorf("%.100s: %+v, want %+v", text, got, want)
		}
	}
	almost := strings.Replace(deep, "[]", "", 1)
	if got := ReadItem([]byte(`{"id":"a","fetch_status":"success","x":` + almost + `}`)); !got.OK() {
		t.Errorf("as deep as may be: %+v", got)
	}
}

// FuzzReadItem holds that an item has the fields that encoding/json finds, and every error a name and a reason.
func FuzzReadItem(f *testing.F) {
	f.Add([]byte(`{"content_id":"a","fetch_status":"success","crawled_at":"2025-12-06T10:15:30Z"}`))
	f.Add([]byte(`{"meta":{"id":1,"fetch_status":"error","error_code":"TIMEOUT"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o := ReadItem(text)
		switch {
		case o.OK() && (o.Status != Success || o.ContentID == ""):
			t.Errorf("%q succeeded: %+v", text, o)
		case !o.OK() && (o.Code == "" || o.Status != Failure && o.Message == ""):
			t.Errorf("%q has an error without a name or a reason: %+v", text, o)
		}
		if _, err := json.Marshal(o); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var fields map[string]json.RawMessage
		if !utf8.Valid(text) || json.Unmarshal(text, &fields) != nil || depthOf(t, text) > MaxDepth {
			fields = nil
		}
		var found itemFields
		if err := found.read(text, json.Valid(text)); (err == nil) != (fields != nil) {
			t.Fatalf("%q: %v, and encoding/json finds %q", text, err, fields)
		}
		for name, want := range fields {
			if at := found.own.at(name); at != nil && !bytes.Equal(*at, want) {
				t.Errorf("%q: %s is %q, and encoding/json finds %q", text, name, *at, want)
			}
		}
	})
}

// depthOf is how deep objects and lists are in each other, by the decoder of encoding/json.
func depthOf(t *testing.T, text []byte) (deepest int) {
	t.Helper()
	d, depth := json.NewDecoder(bytes.NewReader(text)), 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return deepest
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		deepest = max(deepest, depth)
	}
}
