package instant

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"2026-02-10T14:30:00Z":                "2026-02-10T14:30:00Z",
		"2026-02-10T14:30:00.123456789+02:00": "2026-02-10T12:30:00.123456789Z",
		"0001-01-01T00:00:00Z":                "0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59Z":                "9999-12-31T23:59:59Z",
		"9999-12-31T23:59:59-23:59":           "", // of the year 10000
		"0001-01-01T00:00:00+00:01":           "", // of the year 0
		"0000-06-01T00:00:00Z":                "",
		"10000-01-01T00:00:00Z":               "",
		"infinity":                            "",
		"2026-02-10":                          "",
		"":                                    "",
		"2026-02-10T14:30:00.0000000000000000000000000000000000000000000000000000000000000Z": "",
	} {
		at, err := Parse(text)
		if got := at.Format(time.RFC3339Nano); (err == nil) != (want != "") || want != "" && got != want {
			t.Errorf("%s: %s, %v, want %q", text, got, err, want)
		}
		var p Time
		if textErr := p.UnmarshalText([]byte(text)); (textErr == nil) != (err == nil) || !p.Equal(at) {
			t.Errorf("%s as a parameter: %v, %v", text, p, textErr)
		}
	}
}

// TestDocument: whatever a document says can be encoded, and is refused unless it is within
// the years.
func TestDocument(t *testing.T) {
	for text, valid := range map[string]bool{
		`{"at":"2026-02-10T14:30:00Z"}`: true, `{"at":null}`: true, `{}`: true,
		`{"at":"9999-12-31T23:59:59-23:59"}`: false, `{"at":"0000-01-01T00:00:00Z"}`: false,
	} {
		var doc struct{ At *Time }
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if doc.At != nil && (doc.At.Check() == nil) != valid {
			t.Errorf("%s: %v", text, doc.At.Check())
		}
		if _, err := json.Marshal(doc); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{"at":7}`, `{"at":"soon"}`, `{"at":{}}`} {
		if err := json.Unmarshal([]byte(text), new(struct{ At *Time })); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("9999-12-31T23:59:59-23:59")
	f.Add("0000-01-01T00:00:00.999999999+24:00")
	f.Fuzz(func(t *testing.T, text string) {
		at, err := Parse(text)
		if err != nil {
			return
		}
		if _, err := json.Marshal(at); err != nil || at.Location() != time.UTC {
			t.Errorf("%q: %v", text, err)
		}
	})
}
