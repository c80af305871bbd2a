package sources

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// list reads a list as lines of text: the number, and the source or what it breaks.
func list(format, text string) (lines, ignored []string, err error) {
	ignored, err = ReadList(format, strings.NewReader(text), func(l ListLine) error {
		broken := l.Draft.BrokenAlone()
		if len(broken) == 0 {
			f := l.Draft.Over(source.New())
			lines = append(lines, fmt.Sprintf("%d %s %s %d %d %v %s %s", l.Number, f.Name, f.URL, f.RateLimit,
				f.MaxDepth, f.Enabled, f.Selectors, f.Priority))
		}
		for _, b := range broken {
			lines = append(lines, fmt.Sprintf("%d %s=%s", l.Number, b.Field, b.Code))
		}
		return nil
	})
	return lines, ignored, err
}

// TestRead: what is good goes in, and what breaks a rule has its line and field.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, format, text string
		want               []string
		ignored            string
	}{
		{
			"CSV", CSV,
			"\xef\xbb\xbfName,URL,Kind,rate_limit,enabled,selectors,priority\r\n" +
				"\"A, \"\"B\"\"\", https://a.example ,rss,5,FALSE,\"{\"\"a\"\":\"\"b\"\"}\",high\r\n" +
				",https://b.example:8080/x,,,,,\n\n" +
				"\"two\nlines\",https://c.example,,,,,\n" +
				"c,opencv.org/feed,,0,maybe,[],urgent\n" +
				"few,https://d.example\n" +
				"bad \"quote,https://e.example,,,,,\n" +
				"\xff,https://f.example,,x,,,\n" +
				"last,https://g.example,,,,,",
			[]string{
				`2 A, "B" https://a.example 5 1 false {"a":"b"} high`,
				`3 b.example:8080 https://b.example:8080/x 10 1 true {} normal`,
				"5 name=control_character", "7 url=url", "7 rate_limit=range", "7 enabled=type", "7 selectors=type",
				"7 priority=priority_unknown",
				"8 =cells", "9 =csv", "10 name=utf8", "10 rate_limit=type",
				`11 last https://g.example 10 1 true {} normal`,
			},
			"Kind",
		},
		{
			"JSON lines", JSONL,
			`{"name":"a","url":"https://a.example","max_depth":3}` + "\n\n  \r\n" +
				`{"url":"https://b.example","id":1}` + "\n[]\n" + `{"url":"https://c.example"}`,
			[]string{
				"1 a https://a.example 10 3 true {} normal", "4 id=field_unknown", "5 =json",
				"6 c.example https://c.example 10 1 true {} normal",
			},
			"",
		},
		{
			"OPML", OPML,
			`<?xml version="1.0" encoding="UTF-8"?>
<opml version="1.0"><head><title>x</title></head><body>
<outline text="News &amp; more">
  <outline type="rss" title="A &lt;1&gt;" text="other" xmlUrl=" https://a.example/?a=1&amp;b=2 " htmlUrl="https://x.example"/>
  <outline text="B" xmlUrl="ftp://b.example"/>
  <outline xmlUrl="https://c.example" rate_limit="7" enabled="false" selectors="{&quot;a&quot;:1}" priority="low"/>
</outline>
</body></opml>`,
			[]string{
				"4 A <1> https://a.example/?a=1&b=2 10 1 true {} normal", "5 url=url",
				`6 c.example https://c.example 7 1 false {"a":1} low`,
			},
			"",
		},
		{
			"CSV with settings of jobs", CSV,
			"url,job_cron,job_interval_minutes,job_days,JOB_Crawl_Window,job_time_zone\n" +
				"https://a.example,0 6 * * mon,,,\"{\"\"start_hour\"\":22,\"\"end_hour\"\":6,\"\"days\"\":[\"\"mon\"\",\"\"day\"\"]}\",\n" +
				"https://b.example,,often,,,\nhttps://c.example,61 * * * *,,,,Mars\nhttps://d.example,,5,x,,",
			[]string{
				"2 job_crawl_window.days[1]=day_unknown", "3 job_interval_minutes=type", "4 job_time_zone=time_zone",
				"4 job_cron=cron", "5 d.example https://d.example 10 1 true {} normal",
			},
			"job_days",
		},
		{
			"JSON lines with settings of jobs", JSONL,
			`{"url":"https://a.example","job":{"interval_minutes":5,"jitter_seconds":null}}` + "\n" +
				`{"url":"https://b.example","job":{"interval":5}}` + "\n" + `{"url":"https://c.example","job":5}` + "\n" +
				`{"url":"https://d.example","job":{"auto_managed":false}}`,
			[]string{
				"1 a.example https://a.example 10 1 true {} normal", "2 job.interval=field_unknown", "3 job=json",
				"4 job.auto_managed=field_unknown",
			},
			"",
		},
		{"empty CSV", CSV, "url\n", nil, ""},
		{"empty lines", JSONL, "", nil, ""},
		{"empty OPML", OPML, "<opml/>", nil, ""},
	} {
		got, ignored, err := list(c.format, c.text)
		if err != nil || !slices.Equal(got, c.want) || strings.Join(ignored, " ") != c.ignored {
			t.Errorf("%s: %v, ignored %v\n%s\nwant\n%s", c.name, err, ignored, strings.Join(got, "\n"),
				strings.Join(c.want, "\n"))
		}
	}
}

// TestUnreadable: a list that cannot be read as a whole says where and why.
func TestUnreadable(t *testing.T) {
	for text, format := range map[string]string{
		"":                               CSV,
		"name,link\na,https://a.example": CSV,
		"a \"b,url\n":                    CSV,
		strings.Repeat("a", MaxLine+1):   JSONL,
		" ":                              OPML,
		"<html></html>":                  OPML,
		"<opml><body></opml>":            OPML,
		"<opml><outline xmlUrl=\"&bomb;\"/></opml>":                                                           OPML,
		"<!DOCTYPE opml [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><opml><outline xmlUrl=\"&a;\"/></opml>":   OPML,
		"<opml>" + strings.Repeat("<outline>", MaxDepth) + strings.Repeat("</outline>", MaxDepth) + "</opml>": OPML,
		"a": "xls",
	} {
		_, _, err := list(format, text)
		var invalid *source.Invalid
		if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Rule == "" {
			t.Errorf("%s %.80q: %v", format, text, err)
		}
	}
	deep := "<opml>" + strings.Repeat("<outline>", MaxDepth-1) + strings.Repeat("</outline>", MaxDepth-1) + "</opml>"
	if _, _, err := list(OPML, deep); err != nil {
		t.Error(err)
	}
}

// TestStops: an error of the caller ends the reading.
func TestStops(t *testing.T) {
	full := errors.New("full")
	for format, text := range map[string]string{
		CSV: "url\na\nb\n", JSONL: "{}\n{}\n", OPML: `<opml><outline xmlUrl="a"/><outline xmlUrl="b"/></opml>`,
	} {
		n := 0
		_, err := ReadList(format, strings.NewReader(text), func(ListLine) error { n++; return full })
		if !errors.Is(err, full) || n != 1 {
			t.Errorf("%s: %d lines, %v", format, n, err)
		}
	}
}

// noFormulas holds CSV to having no cell that a spreadsheet takes for a formula.
func noFormulas(t *testing.T, text []byte) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
				t.Errorf("a spreadsheet takes %q for a formula", cell)
			}
		}
	}
}

// TestRoundTrip: what is written is read as the same sources.
func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "Ü", "\"", "'", "<", "&", ",", ";", "日本", "]]>", "\\", "=1+1", "#"}
	text := func() string {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	for _, format := range ListFormats {
		var all []source.Fields
		var jobs []job.Overrides
		var out bytes.Buffer
		w, err := NewListWriter(format, &out, JobColumns)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			f := source.Fields{
				Name: text(), URL: "https://example.com/?" + text(), RateLimit: 1 + random.IntN(1000),
				MaxDepth: 1 + random.IntN(100),
				Enabled:  random.IntN(2) == 0, Priority: source.Priorities[random.IntN(4)],
			}
			if f.Selectors, err = json.Marshal(map[string]string{text(): text() + "\n"}); err != nil {
				t.Fatal(err)
			}
			o := job.Overrides{}
			if random.IntN(2) == 0 {
				seconds, policy := random.IntN(3600), []string{"none", "one", "recent", "all"}[random.IntN(4)]
				o.JitterSeconds, o.CatchUpPolicy = &seconds, &policy
			}
			if random.IntN(2) == 0 {
				expression, zone := "30 6 * * mon-fri", "Europe/Berlin"
				o.Cron, o.TimeZone = &expression, &zone
				o.CrawlWindow = &job.CrawlWindow{StartHour: 22, EndHour: 6, Days: []int{1, 5}, TimeZone: "UTC"}
			}
			if err := w.Write(f, o); err != nil {
				t.Fatal(err)
			}
			all, jobs = append(all, f), append(jobs, o)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if format == CSV {
			noFormulas(t, out.Bytes())
		}
		_, err = ReadList(format, &out, func(l ListLine) error {
			if broken := l.Draft.BrokenAlone(); len(broken) > 0 {
				return fmt.Errorf("line %d: %v", l.Number, broken)
			}
			if changed := source.Changed(all[0], l.Draft.Over(source.New())); len(changed) > 0 {
				return fmt.Errorf("line %d: %v differ of %+v", l.Number, changed, all[0])
			}
			var o job.Overrides
			if l.Job != nil {
				o = l.Job.Over(o)
			}
			got, err := json.Marshal(o)
			want, err2 := json.Marshal(jobs[0])
			if err != nil || err2 != nil || !bytes.Equal(got, want) {
				return fmt.Errorf("line %d: the job runs as %s says, want %s", l.Number, got, want)
			}
			all, jobs = all[1:], jobs[1:]
			return nil
		})
		if err != nil || len(all) > 0 {
			t.Errorf("%s: %v, %d sources are missing", format, err, len(all))
		}
	}
}

// FuzzRead: no list makes its reader fail in another way than by a rule.
func FuzzRead(f *testing.F) {
	f.Add(byte(0), "<opml><outline xmlUrl='https://a.example'/></opml>")
	f.Add(byte(1), "url,name\nhttps://a.example,\"a")
	f.Add(byte(2), "{\"url\":\"https://a.example\"}\n")
	f.Fuzz(func(t *testing.T, format byte, text string) {
		_, _, err := list(ListFormats[int(format)%len(ListFormats)], text)
		var invalid *source.Invalid
		if err != nil && !errors.As(err, &invalid) {
			t.Fatal(err)
		}
	})
}
