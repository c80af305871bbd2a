package batches

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for content, want := range map[string][]string{
		`[{"id":"a,]\"["}, {"id":[1,{"x":2}]} ,3,null,"s"]`: {`{"id":"a,]\"["}`, `{"id":[1,{"x":2}]}`, `3`, `null`, `"s"`},
		`[]`: nil, " [ \n] ": nil, `[[]]`: {`[]`}, `["\\"]`: {`"\\"`},
		"\ufeff[1]":                         {`1`},
		`{"id":1}`:                          {`{"id":1}`},
		"{\n \"id\": 1\n}\n":                {"{\n \"id\": 1\n}"},
		"{\"id\":1}\n\r\n{\"id\":2}\r\n":    {`{"id":1}`, `{"id":2}`},
		"{\"id\":1}\noops\n[2]\n{\"id\":3}": {`{"id":1}`, `oops`, `[2]`, `{"id":3}`},
		"oops\n{\"id\":1}":                  {`oops`, `{"id":1}`},
		// Content that is neither is one item.
		`{"status":"ok","articles":[]}`: {`{"status":"ok","articles":[]}`},
		"":                              {""}, "\n": {""}, "7": {"7"}, "oops\nno": {"oops\nno"},
		`[{"id":1},{"id"`: {`[{"id":1},{"id"`}, "[\n{\"id\":1}\n": {"[\n{\"id\":1}"},
		"{\n\"id\":1,\n\"x\":[": {"{\n\"id\":1,\n\"x\":["}, `[1]]`: {`[1]]`}, "[1]\n[2]": {"[1]\n[2]"},
	} {
		items, _, err := split([]byte(content))
		var got []string
		for _, i := range items {
			got = append(got, string(i))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", content, got, err, want)
		}
	}
}

// TestReadItems: the items of an array, of lines and alone are read alike, and each item that
// is not JSON is an error of its own.
func TestReadItems(t *testing.T) {
	const one = `{"id":"a","fetch_status":"success"}`
	for content, want := range map[string][]bool{
		"[" + one + ",7," + one + "]": {true, false, true}, one: {true}, one + "\n" + one: {true, true},
		one + "\noops\n" + one: {true, false, true}, "[" + one + ",": {false}, "": {false},
	} {
		items, err := ReadItems([]byte(content))
		var got []bool
		for i := range items {
			got = append(got, items[i].OK())
			if o := ReadItem(items[i].Content); !reflect.DeepEqual(o, items[i].Outcome) {
				t.Errorf("%q: item %d is %+v, and by itself %+v", content, i, items[i].Outcome, o)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", content, got, err, want)
		}
	}
}

func TestSplitBounds(t *testing.T) {
	most := strings.Repeat("0,", MaxItems-1) + "0"
	for content, ok := range map[string]bool{
		"[" + most + "]": true, "[" + most + ",0]": false,
		strings.Repeat("{}\n", MaxItems): true, strings.Repeat("{}\n", MaxItems+1): false,
	} {
		items, err := ReadItems([]byte(content))
		if (err == nil) != ok || ok && len(items) != MaxItems {
			t.Errorf("%.20q: %d items, %v", content, len(items), err)
		}
	}
}

// FuzzSplit holds that the elements of an array are those that encoding/json finds, and that
// everything else has an item at least.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{`[{"a":"\\\"]"},2]`, "{}\n{}", "[", `[[],[[1]],""]`, ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		items, valid, err := split(content)
		if err != nil {
			t.Fatal(err) // fuzzed content has fewer items
		}
		for _, item := range items {
			if valid && !json.Valid(item) {
				t.Errorf("%q: the item %q is taken for valid", content, item)
			}
		}
		content = bytes.TrimPrefix(content, byteOrderMark)
		var want []json.RawMessage
		if json.Unmarshal(content, &want) != nil || want == nil {
			if len(items) == 0 {
				t.Errorf("%q has no item", content)
			}
			return
		}
		same := func(item []byte, raw json.RawMessage) bool { return bytes.Equal(item, raw) }
		if !slices.EqualFunc(items, want, same) {
			t.Errorf("%q: %q, want %q", content, items, want)
		}
	})
}
