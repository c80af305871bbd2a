package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// recordings is where recordOutages has written what it saw.
const recordings = "testdata/outages"

// How long a recording is stretched to. A recording has about two minutes. What went before
// it, and how each of its phases goes on, is made up: see stretched.
const (
	step        = 30 * time.Second // of the stretched series
	longBefore  = 90 * time.Minute
	longOutage  = 150 * time.Minute
	longAfter   = 150 * time.Minute
	quietLength = 3 * time.Hour
)

// TestAlertsOnOutages holds that each recorded outage fires its alerts, that none fires
// before it and in the quiet recording, and that all have resolved after it. promtool
// evaluates the rules as Prometheus does.
func TestAlertsOnOutages(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if inCI() {
			t.Fatal("promtool is not installed")
		}
		t.Skip("promtool is not installed (Debian: apt install prometheus)")
	}
	for _, o := range slowtest.Sample(outages(), 12) {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			r := readRecording(t, o.name)
			file := filepath.Join(t.TempDir(), "outage.yml")
			text, err := yaml.Marshal(r.unitTest(t, o))
			if err == nil {
				err = os.WriteFile(file, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestEveryOutageIsRecorded holds that each alert of the group on outages fires in one of the
// recordings, but for those that need what no recording has.
func TestEveryOutageIsRecorded(t *testing.T) {
	unrecorded := map[string]string{
		"MillraceAbsent":           "Prometheus itself scrapes nothing",
		"MillraceMirrorBehind":     "a query service that hears nothing of what is folded loads its views again",
		"MillraceQueueBacklog":     "workers that are slow, which is no fault",
		"MillraceOutboxWaiting":    "internal/outbox has a test",
		"MillraceWorkNotPublished": "another process leads at once",
		"MillraceDiskLow":          "MillraceDiskFull comes after it",
		"MillraceRestarts":         "an outage lasts for less than three restarts",
		"MillracePartRestarts":     "no kind of fault has one part of a process fail",
		"MillracePartFailing":      "no kind of fault has one part of a process fail",
		"MillraceEngineRestarts":   "the harness keeps the engines of its installation itself",
	}
	recorded := map[string]bool{}
	for _, o := range outages() {
		for _, alert := range o.fires {
			recorded[alert] = true
		}
	}
	for _, alert := range outageAlerts(t) {
		if !recorded[alert] && unrecorded[alert] == "" {
			t.Errorf("no recorded outage has to fire %s", alert)
		}
	}
}

// outageAlerts are the alerts of the group on outages.
func outageAlerts(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(rulesFile())
	if err != nil {
		t.Fatal(err)
	}
	_, group, _ := strings.Cut(string(text), "- name: millrace-outages")
	group, _, _ = strings.Cut(group, "\n  - name: ")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(group, -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		t.Fatalf("alerts on outages: %v", names)
	}
	return names
}

// recording is what was scraped in an outage: of each series a value for each scrape, NaN
// where it was absent.
type recording struct {
	before, during, after int
	every                 time.Duration
	series                map[string][]float64
}

func recordingOf(outage string) string { return filepath.Join(recordings, outage+".txt.gz") }

func readRecording(t *testing.T, name string) recording {
	t.Helper()
	f, err := os.Open(recordingOf(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := recording{series: map[string][]float64{}}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		var every string
		if n, _ := fmt.Sscanf(line, "before %d during %d after %d, a scrape every %s", &r.before, &r.during, &r.after,
			&every); n == 4 {
			if r.every, err = time.ParseDuration(every); err != nil {
				t.Fatal(err)
			}
			continue
		}
		series, values, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("%s: %q is no series", name, line)
		}
		if r.series[series], err = parseValues(values); err != nil {
			t.Fatalf("%s: %s: %v", name, series, err)
		}
		if n := len(r.series[series]); n != r.before+r.during+r.after {
			t.Fatalf("%s: %s has %d values", name, series, n)
		}
	}
	if err := lines.Err(); err != nil || len(r.series) < 50 {
		t.Fatalf("%s: %d series, %v", name, len(r.series), err)
	}
	return r
}

func parseValues(text string) (values []float64, err error) {
	for word := range strings.FieldsSeq(text) {
		n := 1
		if times, value, many := strings.Cut(word, "*"); many {
			if n, err = strconv.Atoi(times); err != nil {
				return nil, err
			}
			word = value
		}
		v := math.NaN()
		if word != "_" {
			if v, err = strconv.ParseFloat(word, 64); err != nil {
				return nil, err
			}
		}
		for range n {
			values = append(values, v)
		}
	}
	return values, nil
}

// unitTest is what promtool runs.
func (r recording) unitTest(t *testing.T, o outage) map[string]any {
	t.Helper()
	var input []any
	for series := range r.series {
		input = append(input, map[string]any{"series": series, "values": r.stretched(series)})
	}
	// The machine of a recording may be slow: alerts on latency are not about the outage.
	outages := fmt.Sprintf(`,alertname=~"%s"`, strings.Join(outageAlerts(t), "|"))
	firing := func(at time.Duration, which string, want ...string) map[string]any {
		samples := []any{}
		for _, alert := range want {
			samples = append(samples, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
		}
		return map[string]any{
			"expr":      `group by (alertname) (ALERTS{alertstate="firing"` + which + `})`,
			"eval_time": at.String(), "exp_samples": samples,
		}
	}
	var checks []any
	if r.during == 0 {
		for at := 10 * time.Minute; at < quietLength; at += 10 * time.Minute {
			checks = append(checks, firing(at, ""))
		}
	} else {
		must := fmt.Sprintf(`,alertname=~"%s"`, strings.Join(o.fires, "|"))
		checks = []any{
			firing(longBefore-step, outages), firing(longBefore+longOutage-step, must, o.fires...),
			firing(longBefore+longOutage+longAfter-2*step, outages),
		}
	}
	rules, err := filepath.Abs(rulesFile())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": step.String(), "input_series": input, "promql_expr_test": checks}},
	}
}

// stretched writes the values of a series for promtool, one for each step. A phase begins with
// what was scraped in it, as far as that falls on a step, and goes on with the trend of its
// last scrapes. Counters go on as they did. In an outage so do gauges that only grew or only
// fell, such as what waits and its age. Other gauges keep their last value, and what was
// absent stays so.
func (r recording) stretched(series string) string {
	values, counter := r.series[series], isCounter(series)
	var text strings.Builder
	grown := 0.0 // what a counter has counted in the time that was made up
	for _, p := range r.phases() {
		recorded := values[p.from:p.to]
		if len(recorded) == 0 {
			continue
		}
		trend := trendOf(recorded, r.every, counter, p.outage)
		last := float64(len(recorded)-1) * r.every.Seconds()
		var v float64
		for at := time.Duration(0); at < p.length; at += step {
			beyond := max(0, at.Seconds()-last)
			v = recorded[min(int(at/r.every), len(recorded)-1)] + beyond*trend
			if !strings.HasPrefix(series, "millrace_nats_clock") {
				v = max(0, v)
			}
			writeValue(&text, v+grown)
		}
		if counter && !math.IsNaN(v) {
			grown += v - recorded[len(recorded)-1]
		}
	}
	return strings.TrimSpace(text.String())
}

// phase is a part of a recording, and what it is stretched to.
type phase struct {
	from, to int
	length   time.Duration
	outage   bool
}

func (r recording) phases() []phase {
	if r.during == 0 {
		return []phase{{to: r.before, length: quietLength}}
	}
	during := r.before + r.during
	return []phase{
		{to: r.before, length: longBefore}, {r.before, during, longOutage, true}, {from: during, to: during + r.after, length: longAfter},
	}
}

// isCounter tells of a series of a counter or a histogram by its name.
func isCounter(series string) bool {
	name, _, _ := strings.Cut(series, "{")
	for _, suffix := range []string{"_total", "_count", "_sum", "_bucket"} {
		if strings.HasSuffix(name, suffix) && name != "pipeline_events_row_count" {
			return true
		}
	}
	return false
}

// trendOf is by how much a series changes in a second, by the later half of its scrapes.
func trendOf(values []float64, every time.Duration, counter, outage bool) float64 {
	values = values[len(values)/2:]
	first, last := values[0], values[len(values)-1]
	up, down := 0, 0
	for i := 1; i < len(values); i++ {
		switch {
		case math.IsNaN(values[i]) || math.IsNaN(values[i-1]):
			return 0
		case values[i] > values[i-1]:
			up++
		case values[i] < values[i-1]:
			down++
		}
	}
	grows := down == 0 && (counter || up > 1)
	falls := up == 0 && down > 1 && !counter
	if len(values) < 2 || !grows && !falls || !counter && !outage {
		return 0
	}
	return (last - first) / (float64(len(values)-1) * every.Seconds())
}

func writeValue(text *strings.Builder, v float64) {
	if math.IsNaN(v) {
		text.WriteString("_ ")
		return
	}
	text.WriteString(strconv.FormatFloat(v, 'g', 10, 64) + " ")
}
