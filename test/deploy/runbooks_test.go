package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const (
	runbooks = "../../docs/runbooks"
	// runbooksOnTheWeb is where the annotations runbook_url lead to. Prometheus has no variable for it, and the
	// name of the alert is none in annotations.
	runbooksOnTheWeb = "https://github.com/millrace-io/millrace/blob/main/docs/runbooks/"
)

// TestEveryAlertHasARunbook holds that each alert leads to a runbook that the index lists, and that no runbook is
// without its alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	left, index := readRunbooks(t), readText(t, filepath.Join(runbooks, "README.md"))
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		name := r.Alert + ".md"
		if left[name] == "" {
			t.Errorf("%s has no runbook docs/runbooks/%s", r.Alert, name)
		}
		delete(left, name)
		if got, want := r.Annotations["runbook_url"], runbooksOnTheWeb+name; got != want {
			t.Errorf("%s has the runbook_url %q, want %q", r.Alert, got, want)
		}
		if strings.Count(index, "| ["+r.Alert+"]("+name+") |") != 1 {
			t.Errorf("docs/runbooks/README.md does not list %s once", r.Alert)
		}
	}
	for name := range left {
		t.Errorf("docs/runbooks/%s is about no alert", name)
	}
}

// TestOnCallDashboard holds that the dashboard asks what matters first, shows every alert, and leads to runbooks.
func TestOnCallDashboard(t *testing.T) {
	var rows []string
	for _, p := range readDashboard(t, "oncall") {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
	}
	want := []string{
		"Is anything lost?", "What stops, and since when?", "Which alerts fire, and what to do?", "How did it begin?",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	text := readText(t, "../../deploy/grafana/dashboards/oncall.json")
	if !strings.Contains(text, `"`+runbooksOnTheWeb+`${__value.raw}.md"`) {
		t.Error("the names of alerts that fire do not lead to their runbooks")
	}
	shown := regexp.MustCompile(`ALERTS\{alertstate=\\"firing\\",alertname=~\\"([^"\\]+)`).FindStringSubmatch(text)
	if shown == nil {
		t.Fatal("no panel shows the alerts that fire")
	}
	by := regexp.MustCompile(`max by \((alertname, [^)]+)\) \(ALERTS_FOR_STATE`).FindStringSubmatch(text)
	if by == nil {
		t.Fatal("the list of alerts that fire has no labels")
	}
	labels, named := strings.Split(by[1], ", "), regexp.MustCompile(`\$labels\.(\w+)`)
	for _, r := range readRules(t) { // else two alerts are one line, or nobody sees what it is about
		for _, m := range named.FindAllStringSubmatch(r.Annotations["summary"], -1) {
			if !slices.Contains(labels, m[1]) {
				t.Errorf("the list of alerts that fire leaves out the label %s of %s", m[1], r.Alert)
			}
		}
	}
	names := regexp.MustCompile("^(?:" + shown[1] + ")$")
	for _, r := range readRules(t) {
		if r.Alert != "" && !names.MatchString(r.Alert) {
			t.Errorf("the list of alerts that fire leaves out %s", r.Alert)
		}
	}
	linked := regexp.MustCompile(regexp.QuoteMeta(runbooksOnTheWeb)+`(\w+\.md)`).FindAllStringSubmatch(text, -1)
	for _, m := range linked {
		if _, err := os.Stat(filepath.Join(runbooks, m[1])); err != nil {
			t.Errorf("a panel leads to the runbook %s: %v", m[1], err)
		}
	}
	if len(linked) < 10 {
		t.Errorf("only %d links lead to runbooks", len(linked))
	}
}

// runbookParts are the headings and lines that a runbook has, in this order.
var runbookParts = []string{
	"- **Lost:** ", "- **Stops:** ", "- **Affected:** ", "## Confirm\n", "## Causes\n", "## Resolves\n", "## Do not\n",
}

// TestRunbooksAnswer holds that each runbook answers the same questions in the same order, and has a command or a
// query to confirm the alert.
func TestRunbooksAnswer(t *testing.T) {
	for name, text := range readRunbooks(t) {
		if !strings.HasPrefix(text, "# "+strings.TrimSuffix(name, ".md")+"\n") {
			t.Errorf("%s does not begin with the name of its alert", name)
		}
		rest := text
		for _, part := range runbookParts {
			_, after, found := strings.Cut(rest, "\n"+part)
			if !found || strings.TrimSpace(after) == "" {
				t.Errorf("%s has no %q, or not there", name, part)
				break
			}
			rest = after
		}
		if len(blocksOf(text, "sh"))+len(blocksOf(text, "promql")) == 0 {
			t.Errorf("%s has nothing to confirm its alert by", name)
		}
	}
}

// TestRunbooksNameWhatExists holds that the metrics, recorded queries, commands, flags and settings that runbooks
// name exist. The end-to-end test TestDocumentedCommands runs their blocks.
func TestRunbooksNameWhatExists(t *testing.T) {
	known := knownNames{
		metrics: metricsInCode(t), commands: commandsInSettings(t),
		settings: readText(t, "../../docs/settings.md") + readText(t, "../../docs/publishing.md"),
	}
	for _, r := range readRules(t) {
		known.records = append(known.records, r.Record)
	}
	all := readRunbooks(t)
	all["README.md"] = readText(t, filepath.Join(runbooks, "README.md"))
	for name, text := range all {
		for _, wrong := range known.missing(text) {
			t.Errorf("%s names %s, which does not exist", name, wrong)
		}
	}
}

// TestRunbookQueries holds that Prometheus can read each line of the blocks of PromQL.
func TestRunbookQueries(t *testing.T) {
	var records []map[string]string
	for _, text := range readRunbooks(t) {
		for _, block := range blocksOf(text, "promql") {
			for line := range strings.Lines(block) {
				records = append(records, map[string]string{"record": "runbook:query", "expr": strings.TrimSpace(line)})
			}
		}
	}
	if len(records) < 50 {
		t.Fatalf("%d queries", len(records))
	}
	checkQueries(t, records)
}

// TestMissingNames holds TestRunbooksNameWhatExists to finding what is wrong.
func TestMissingNames(t *testing.T) {
	known := knownNames{
		metrics: metricsInCode(t), commands: commandsInSettings(t), records: []string{"millrace:events:rate5m"},
		settings: "`MILLRACE_URL`",
	}
	for text, want := range map[string]string{
		"`millrace status --json` and `--dry-run`":         "",
		"`millrace dlq --limit=3`, `millrace queues`":      "",
		"`MILLRACE_URL`, `millrace:events:rate5m`":         "",
		"```sh\nbin/millrace events --stage=a | wc\n```":   "",
		"```promql\nmillrace_dependency_up == 0\n```":      "",
		"`millrace_query_seconds_bucket`":                  "millrace_query_seconds_bucket",
		"`millrace:events:rate1h`":                         "millrace:events:rate1h",
		"`MILLRACE_NONE`":                                  "MILLRACE_NONE",
		"`millrace restart`":                               "millrace restart",
		"`millrace dlq empty`":                             "millrace dlq empty",
		"`millrace dlq purge --limit=1`":                   "millrace dlq purge --limit",
		"`--force`":                                        "--force",
		"```sh\ncurl x && bin/millrace status --fast\n```": "millrace status --fast",
	} {
		if got := strings.Join(known.missing(text), ", "); got != want {
			t.Errorf("%s: %q is missing, want %q", text, got, want)
		}
	}
}

// knownNames are the names that runbooks may use.
type knownNames struct {
	metrics  map[string]bool
	records  []string
	commands map[string]map[string]bool // the flags of each, as "dlq list"
	settings string                     // documents that have every environment variable
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	recorded = regexp.MustCompile(`\bmillrace:[a-z0-9_:]+`)
	variable = regexp.MustCompile(`\b(?:MILLRACE|PIPELINE)_[A-Z_]+\b`)
	flagName = regexp.MustCompile(`^--[a-z][a-z-]*`)
	invoked  = regexp.MustCompile(`(?m)(?:^|[|&;(] *)(?:bin/)?millrace ([^|&;)\n]+)`)
)

// missing lists what a text names and what does not exist.
func (k knownNames) missing(text string) (wrong []string) {
	for _, name := range ours.FindAllString(text, -1) {
		if !k.metrics[name] && !k.metrics[suffixes.ReplaceAllString(name, "")] {
			wrong = append(wrong, name)
		}
	}
	for _, name := range recorded.FindAllString(text, -1) {
		if !slices.Contains(k.records, name) {
			wrong = append(wrong, name)
		}
	}
	for _, name := range variable.FindAllString(text, -1) {
		if !strings.Contains(k.settings, name) {
			wrong = append(wrong, name)
		}
	}
	code := blocksOf(text, "sh")
	for _, span := range codeSpan.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		code = append(code, span[1])
	}
	for _, script := range code {
		if flag := flagName.FindString(script); flag != "" && !k.anyHas(flag) {
			wrong = append(wrong, flag)
		}
		for _, call := range invoked.FindAllStringSubmatch(script, -1) {
			wrong = append(wrong, k.misused(call[1])...)
		}
	}
	return wrong
}

// misused lists what an invocation of millrace has that its command has not.
func (k knownNames) misused(call string) (wrong []string) {
	words := strings.Fields(call)
	command := words[0]
	if len(words) > 1 && k.isGroup(command) {
		switch {
		case k.commands[command+" "+words[1]] != nil:
			command += " " + words[1]
		case !strings.HasPrefix(words[1], "-"):
			return []string{"millrace " + command + " " + words[1]}
		}
	}
	flags := k.commands[command]
	if flags == nil && k.isGroup(command) { // called bare, a group lists
		flags = k.commands[command+" list"]
	}
	if flags == nil {
		return []string{"millrace " + command}
	}
	for _, word := range words {
		if flag := flagName.FindString(word); flag != "" && !flags[flag] && !k.commands["all"][flag] {
			wrong = append(wrong, "millrace "+command+" "+flag)
		}
	}
	return wrong
}

func (k knownNames) isGroup(command string) bool {
	for name := range k.commands {
		if strings.HasPrefix(name, command+" ") {
			return true
		}
	}
	return false
}

func (k knownNames) anyHas(flag string) bool {
	for _, flags := range k.commands {
		if flags[flag] {
			return true
		}
	}
	return false
}

// commandsInSettings reads the commands and their flags from docs/settings.md, which is generated from the program.
// Settings of several commands are in its tables, under the names of the commands or "all".
func commandsInSettings(t *testing.T) map[string]map[string]bool {
	t.Helper()
	commands := map[string]map[string]bool{"all": {}}
	add := func(command, flag string) {
		if commands[command] == nil {
			commands[command] = map[string]bool{}
		}
		commands[command][flag] = true
	}
	of := ""
	setting := regexp.MustCompile("^\\| `[A-Z_]+` \\| `(--[a-z-]+)` \\|.*\\| ([^|]+) \\|$")
	own := regexp.MustCompile("^\\| `(--[a-z-]+)` \\|")
	for line := range strings.Lines(readText(t, "../../docs/settings.md")) {
		line = strings.TrimSpace(line)
		if name, found := strings.CutPrefix(line, "### millrace "); found {
			of = name
			add(of, "")
		} else if m := own.FindStringSubmatch(line); m != nil && of != "" {
			add(of, m[1])
		} else if m := setting.FindStringSubmatch(line); m != nil {
			for command := range strings.SplitSeq(m[2], ", ") {
				add(strings.Trim(command, "`"), m[1])
			}
		}
	}
	if len(commands) < 30 || !commands["all"]["--config"] {
		t.Fatalf("docs/settings.md has %d commands", len(commands))
	}
	return commands
}

// readRunbooks reads all runbooks by the names of their files, but for the index.
func readRunbooks(t *testing.T) map[string]string {
	t.Helper()
	files, err := os.ReadDir(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		if f.Name() != "README.md" {
			all[f.Name()] = readText(t, filepath.Join(runbooks, f.Name()))
		}
	}
	return all
}

func readText(t *testing.T, path string) (text string) {
	t.Helper()
	read(t, path, func(b []byte, into any) error { *into.(*string) = string(b); return nil }, &text)
	return text
}

var fences = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// blocksOf returns the fenced blocks of a language.
func blocksOf(text, language string) (blocks []string) {
	for _, m := range fences.FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

// checkQueries has promtool read queries as recording rules.
func checkQueries(t *testing.T, records []map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "queries.yml")
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": records}}})
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, monitoring, "check", "rules", "--lint=none", file)
}
