package deploy

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const monitoring = "../../deploy/prometheus"

// promtool runs Prometheus' own checker in a folder. Continuous integration installs it;
// elsewhere the test is skipped where it is not.
func promtool(t *testing.T, folder string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is not installed")
		}
		t.Skip("promtool is not installed (Debian: apt install prometheus)")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRules(t *testing.T) {
	promtool(t, monitoring, "check", "config", "prometheus.yml") // the rules, too
	promtool(t, withSummariesOnly(t), append([]string{"test", "rules"}, ruleTests...)...)
}

// withSummariesOnly returns a folder with the rules and their unit tests. promtool compares all annotations, and the
// tests repeat neither the descriptions nor the addresses of runbooks.
func withSummariesOnly(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	var file map[string]any
	read(t, filepath.Join(monitoring, "rules.yml"), yaml.Unmarshal, &file)
	for _, group := range file["groups"].([]any) {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			if notes, ok := rule.(map[string]any)["annotations"].(map[string]any); ok {
				delete(notes, "description")
				delete(notes, "runbook_url")
			}
		}
	}
	write := func(name string, text []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rules, err := yaml.Marshal(file)
	write("rules.yml", rules, err)
	for _, name := range ruleTests {
		text, err := os.ReadFile(filepath.Join(monitoring, name))
		write(name, text, err)
	}
	return folder
}

// ruleTests are the unit tests of the rules.
var ruleTests = []string{
	"rules_test.yml", "growth_test.yml", "crawls_test.yml", "outages_test.yml", "missing_test.yml", "damage_test.yml",
	"batches_test.yml", "uploads_test.yml", "enrichment_test.yml",
}

type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

// TestAlertsSayWhatToDo holds that each alert says how bad it is, what is, and what to do.
func TestAlertsSayWhatToDo(t *testing.T) {
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || len(r.Annotations["description"]) < 30 {
			t.Errorf("%s has no summary, or no description that says what to do", r.Alert)
		}
	}
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	read(t, filepath.Join(monitoring, "rules.yml"), yaml.Unmarshal, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 20 {
		t.Fatalf("%d rules", len(all))
	}
	return all
}

func read(t *testing.T, path string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestEveryAlertIsTested holds that no alert is without a unit test that fires
// it.
func TestEveryAlertIsTested(t *testing.T) {
	fired := map[string]bool{}
	for _, name := range ruleTests {
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name string `yaml:"alertname"`
					Want []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		read(t, filepath.Join(monitoring, name), yaml.Unmarshal, &file)
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				fired[a.Name] = fired[a.Name] || len(a.Want) > 0
			}
		}
	}
	for _, r := range readRules(t) {
		if r.Alert != "" && !fired[r.Alert] {
			t.Errorf("no test fires %s", r.Alert)
		}
	}
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

// dashboards are the names of the dashboards, and how many panels each has at least.
var dashboards = map[string]int{"millrace": 20, "crawls": 16, "oncall": 24}

func readDashboard(t *testing.T, name string) []panel {
	t.Helper()
	var d struct {
		UID    string
		Title  string
		Panels []panel
	}
	read(t, "../../deploy/grafana/dashboards/"+name+".json", json.Unmarshal, &d)
	if d.UID == "" || d.Title == "" || len(d.Panels) < dashboards[name] {
		t.Fatalf("dashboard %q %q has %d panels", d.UID, d.Title, len(d.Panels))
	}
	return d.Panels
}

// TestDashboard holds that panels do not overlap, and that Prometheus can read
// every query.
func TestDashboard(t *testing.T) {
	for name := range dashboards {
		t.Run(name, func(t *testing.T) { checkDashboard(t, readDashboard(t, name)) })
	}
}

func checkDashboard(t *testing.T, panels []panel) {
	ids, cells := map[int]bool{}, map[[2]int]string{}
	var records []map[string]string
	for _, p := range panels {
		if ids[p.ID] || p.Title == "" || (p.Type != "row" && len(p.Targets) == 0) {
			t.Errorf("panel %d %q: its id is taken, or it shows nothing", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
					t.Fatalf("%q lies over %q, or off the page", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			if target.Expr == "" || target.LegendFormat == "" {
				t.Errorf("%q has a query without text or legend", p.Title)
			}
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			records = append(records,
				map[string]string{"record": fmt.Sprintf("panel:%d:%d", p.ID, len(records)), "expr": expr})
		}
	}
	checkQueries(t, records)
}

// ours finds the metrics of Millrace in a query.
var ours = regexp.MustCompile(`\b(?:pipeline|millrace|crawler)_[a-z0-9_]+\b`)

// suffixes are those of a histogram's series.
var suffixes = regexp.MustCompile(`_(bucket|sum|count)$`)

// TestMetricsExist holds that rules and dashboard ask for metrics only that
// the code has.
func TestMetricsExist(t *testing.T) {
	known := metricsInCode(t)
	check := func(where, expr string) {
		for _, name := range ours.FindAllString(expr, -1) {
			if !known[name] && !known[suffixes.ReplaceAllString(name, "")] {
				t.Errorf("%s asks for %s, which no code has", where, name)
			}
		}
	}
	for _, r := range readRules(t) {
		check(r.Record+r.Alert, r.Expr)
	}
	for name := range dashboards {
		for _, p := range readDashboard(t, name) {
			for _, target := range p.Targets {
				check(p.Title, target.Expr)
			}
		}
	}
}

// TestCrawlDashboard holds that the dashboard of crawls has its four rows, and that it
// or an alert looks at every metric of crawls.
func TestCrawlDashboard(t *testing.T) {
	var rows []string
	asked := map[string]bool{}
	look := func(expr string) {
		for _, name := range ours.FindAllString(expr, -1) {
			asked[suffixes.ReplaceAllString(name, "")] = true
		}
	}
	for _, p := range readDashboard(t, "crawls") {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
		for _, target := range p.Targets {
			look(target.Expr)
		}
	}
	for _, r := range readRules(t) {
		look(r.Expr)
	}
	want := []string{"Event pipeline health", "Job lifecycle", "Scheduler performance", "Crawl performance"}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	for name := range metricsInCode(t) {
		if strings.HasPrefix(name, "crawler_") && !asked[name] {
			t.Errorf("nothing looks at %s", name)
		}
	}
}

// metricsInCode collects what is named like a metric, but for tests.
func metricsInCode(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	whole := regexp.MustCompile(`^` + ours.String() + `$`)
	for _, dir := range []string{"client", "cmd", "ingest", "internal", "projector", "query"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if name, err := strconv.Unquote(lit.Value); err == nil && whole.MatchString(name) {
						names[name] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d metrics found", len(names))
	}
	return names
}
