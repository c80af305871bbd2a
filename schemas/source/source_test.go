package source

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// codes are the rules that a draft breaks, as field=code.
func codes(broken []Invalid) (all []string) {
	for _, b := range broken {
		all = append(all, b.Field+"="+b.Code)
	}
	return all
}

// TestRules: each field is answered by its name and the rule that it breaks.
func TestRules(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "name=missing url=missing",
		`{"name":"a","url":"https://example.com"}`: "",
		`{"name":"a","url":"HTTP://example.com:8080/ü?q=a ` +
			`b#c","rate_limit":1000,"max_depth":100,"enabled":false,"selectors":{},"priority":"critical"}`: "",

		``:                            "=json",
		`nul`:                         "=json",
		`[]`:                          "=json",
		`"a"`:                         "=json",
		`{"name":"a"`:                 "=json",
		`{"name":"a"} {}`:             "=json",
		`{"name":"a\xff"}`:            "=json",
		"{\"name\":\"a\xff\"}":        "=utf8",
		`{"id":"x","rate":1}`:         "id=field_unknown rate=field_unknown name=missing url=missing",
		`{"name":"a","name":"b"}`:     "name=repeated url=missing",
		`{"name":null,"url":null}`:    "name=type url=type",
		`{"name":1,"url":["a"]}`:      "name=type url=type",
		`{"name":"","url":""}`:        "name=name url=url",
		`{"name":" a","url":"b"}`:     "name=name url=url",
		`{"name":"a\u0000b","url":1}`: "name=control_character url=type",
		`{"name":"a","url":"https://example.com/\n"}`:            "url=control_character",
		`{"name":"a","url":"https://example.com "}`:              "url=url",
		`{"name":"a","url":"ftp://example.com"}`:                 "url=url",
		`{"name":"a","url":"opencv.org/feed"}`:                   "url=url",
		`{"name":"a","url":"https://:80/"}`:                      "url=url",
		`{"name":"a","url":"https:///path"}`:                     "url=url",
		`{"name":"a","url":"https://u:p@example.com"}`:           "url=credentials",
		`{"name":"a","url":"https://e.com","rate_limit":0}`:      "rate_limit=range",
		`{"name":"a","url":"https://e.com","rate_limit":1001}`:   "rate_limit=range",
		`{"name":"a","url":"https://e.com","rate_limit":-1}`:     "rate_limit=range",
		`{"name":"a","url":"https://e.com","rate_limit":9e99}`:   "rate_limit=type",
		`{"name":"a","url":"https://e.com","rate_limit":1.5}`:    "rate_limit=type",
		`{"name":"a","url":"https://e.com","rate_limit":"5"}`:    "rate_limit=type",
		`{"name":"a","url":"https://e.com","rate_limit":null}`:   "rate_limit=type",
		`{"name":"a","url":"https://e.com","max_depth":101}`:     "max_depth=range",
		`{"name":"a","url":"https://e.com","enabled":"true"}`:    "enabled=type",
		`{"name":"a","url":"https://e.com","enabled":null}`:      "enabled=type",
		`{"name":"a","url":"https://e.com","selectors":null}`:    "selectors=type",
		`{"name":"a","url":"https://e.com","selectors":"h1"}`:    "selectors=type",
		`{"name":"a","url":"https://e.com","priority":"urgent"}`: "priority=priority_unknown",
		`{"name":"a","url":"https://e.com","priority":"High"}`:   "priority=priority_unknown",

		`{"name":"a","url":"https://e.com","max_depth":99999999999999999999999999}`: "max_depth=range",
		`{"url":"https://e.com/` + strings.Repeat("a", MaxURL) + `","name":"` + strings.Repeat("a", MaxName+1) +
			`"}`: "url=length name=length",
		`{"name":"a","url":"https://e.com","selectors":{"a":"` + strings.Repeat("a", MaxSelectors) +
			`"}}`: "selectors=length",
		`{"name":"a","url":"https://e.com","selectors":{"a":` + strings.Repeat("[", MaxNesting) +
			strings.Repeat("]", 32) + `}}`: "selectors=nesting",
		`{"name":"a","url":"https://e.com","selectors":{"a":` + strings.Repeat("[", MaxNesting-1) +
			strings.Repeat("]", 31) + `}}`: "",
	} {
		if got := strings.Join(codes(ReadDraft([]byte(text)).BrokenAlone()), " "); got != want {
			t.Errorf("%.200s\nbreaks %q, want %q", text, got, want)
		}
	}
}

// TestNearest: an unknown field is answered with the one that was probably meant.
func TestNearest(t *testing.T) {
	for name, near := range map[string]string{"ratelimit": "rate_limit", "Priorty": "priority", "link": "name"} {
		broken := ReadDraft([]byte(fmt.Sprintf("{%q:1}", name))).Broken()
		if len(broken) != 1 || !strings.Contains(broken[0].Rule, "the nearest is "+near+",") {
			t.Errorf("%s: %+v, want %s", name, broken, near)
		}
	}
}

// TestOver: a draft changes what it gives and nothing else, whichever field that is.
func TestOver(t *testing.T) {
	values := map[string]string{
		"name": `"b"`, "url": `"https://example.com/b"`, "rate_limit": "7", "max_depth": "8", "enabled": "false",
		"selectors": `{"body": "p"}`, "priority": `"low"`,
	}
	before := New()
	before.Name, before.URL = "a", "https://example.com/a"
	for _, name := range Names {
		after := ReadDraft([]byte(`{"` + name + `":` + values[name] + `}`)).Over(before)
		if changed := Changed(before, after); !slices.Equal(changed, []string{name}) {
			t.Errorf("%s was given, and %v have changed", name, changed)
		}
		text, err := json.Marshal(after.Field(name))
		if want := strings.ReplaceAll(values[name], " ", ""); err != nil || string(text) != want {
			t.Errorf("%s is %s, %v, want %s", name, text, err, want)
		}
	}
	if len(values) != len(Names) {
		t.Errorf("%d fields are tried of %v", len(values), Names)
	}
}

// TestSelectors: selectors that say the same are the same, and digits count that a
// float does not have.
func TestSelectors(t *testing.T) {
	with := func(selectors string) Fields {
		return ReadDraft([]byte(`{"selectors":` + selectors + `}`)).Over(New())
	}
	for _, c := range []struct {
		a, b    string
		changed bool
	}{
		{`{"a":1,"b":[2]}`, `{ "b": [2], "a": 1 }`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, true},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, true},
		{`{}`, `{"a":null}`, true},
	} {
		if got := len(Changed(with(c.a), with(c.b))) > 0; got != c.changed {
			t.Errorf("%s and %s differ: %v, want %v", c.a, c.b, got, c.changed)
		}
	}
}

// TestChanges: what is told of a change, to the letter.
func TestChanges(t *testing.T) {
	from := New()
	from.Name, from.URL = "a", "https://example.com"
	for draft, want := range map[string][]string{
		`{}`:                 nil,
		`{"enabled":true}`:   nil,
		`{"selectors":{ } }`: nil,
		`{"rate_limit":5,"max_depth":2}`: {
			`SOURCE_UPDATED {"changed_fields":["rate_limit","max_depth"],"previous":{"max_depth":1,"rate_limit":10},` +
				`"current":{"max_depth":2,"rate_limit":5}}`,
		},
		`{"enabled":false}`: {`SOURCE_DISABLED {"reason":"why","toggled_by":"user","disabled_by":"user"}`},
		`{"enabled":false,"name":"b"}`: {
			`SOURCE_UPDATED {"changed_fields":["name"],"previous":{"name":"a"},"current":{"name":"b"}}`,
			`SOURCE_DISABLED {"reason":"why","toggled_by":"user","disabled_by":"user"}`,
		},
	} {
		check(t, draft, Changes(from, ReadDraft([]byte(draft)).Over(from), "why"), want)
	}
	disabled := from
	disabled.Enabled = false
	check(t, "enable", Changes(disabled, from, "why"), []string{`SOURCE_ENABLED {"reason":"why","toggled_by":"user"}`})
}

func check(t *testing.T, what string, changes []Change, want []string) {
	t.Helper()
	var got []string
	for _, c := range changes {
		payload, err := json.Marshal(c.Payload)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Type+" "+string(payload))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s\nwant %s", what, got, want)
	}
}

// FuzzDraft: whatever is read breaks a rule, or is a source that says the same when
// it is read again.
func FuzzDraft(f *testing.F) {
	f.Add([]byte(`{"name":"a","url":"https://example.com","selectors":{"a":[1.0e5]},"priority":"low"}`))
	f.Add([]byte(`{"name":"\u0000","enabled":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := ReadDraft(text)
		if len(d.BrokenAlone()) > 0 {
			return
		}
		fields := d.Over(New())
		again, err := json.Marshal(fields)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		d = ReadDraft(again)
		if broken := d.BrokenAlone(); len(broken) > 0 {
			t.Fatalf("%q: %v", again, broken)
		}
		if changed := Changed(fields, d.Over(New())); len(changed) > 0 {
			t.Fatalf("%q: %v have changed", again, changed)
		}
	})
}
