package lint

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/millrace-io/millrace"

// pkg is a package of this module, its names without the module's own.
type pkg struct {
	ImportPath                string
	Imports, Deps             []string
	TestImports, XTestImports []string
}

// packages lists this module's packages as the go command sees them.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = local(p.ImportPath)
		for _, list := range [][]string{p.Imports, p.Deps, p.TestImports, p.XTestImports} {
			for i := range list {
				list[i] = local(list[i])
			}
		}
		all = append(all, p)
	}
	if len(all) < 20 {
		t.Fatalf("only %d packages found", len(all))
	}
	return all
}

// local turns a package of this module into ./its/folder.
func local(name string) string {
	if rest, ok := strings.CutPrefix(name, module); ok {
		return "." + rest
	}
	return name
}

func within(name string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return name == f || strings.HasPrefix(name, f+"/") })
}

func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !within(name, ".") && !strings.Contains(first, ".")
}

// forTests are packages that only tests import, and that run what they need.
func forTests(name string) bool {
	return strings.HasSuffix(path.Base(name), "test")
}

// rule says what the packages of some folders may import of this module. An
// empty list is none; what is in the same folder is allowed always.
type rule struct {
	folder string
	may    []string
	why    string
}

var rules = []rule{
	{"./schemas/event", nil, "the event is what all others agree on"},
	{"./schemas/instant", nil, "whatever reads times imports it"},
	{"./schemas/stream", []string{"./schemas"}, "contracts depend on contracts"},
	{"./schemas/checkpoint", nil, "every fold has one, whatever it folds"},
	{"./schemas/funnel", []string{"./schemas"}, "contracts depend on contracts"},
	{"./schemas/clickhouse", []string{"./schemas"}, "contracts depend on contracts"},
	{"./schemas/postgres", []string{"./schemas"}, "contracts depend on contracts"},
	{"./schemas/slots", []string{"./schemas"}, "contracts depend on contracts"},
	{"./schemas/item", []string{"./schemas/event"}, "the rules of items are pure"},
	{"./schemas/shard", []string{"./schemas/item"}, "the rules of shards are pure"},
	{"./schemas/source", []string{"./schemas/item", "./schemas/instant", "./internal/nearest"}, "the rules of sources are pure"},
	{"./schemas/object", nil, "contracts and storages name objects by it"},
	{"./schemas/batches", []string{"./schemas/item", "./schemas/instant", "./schemas/object"}, "the rules of batches are pure"},
	{"./schemas/uploads", []string{"./schemas/instant"}, "the rules of uploads are pure"},
	{"./internal/tabular", nil, "reading tables is nobody's matter"},
	{"./internal/nearest", nil, "rules import it, and stay pure"},
	{"./internal/schedule", []string{"./schemas/item"}, "the rules of schedules are pure"},
	{"./schemas/job", []string{"./schemas/item", "./internal/nearest"}, "the rules of jobs are pure"},
	{
		"./client",
		[]string{"./schemas/event", "./schemas/stream", "./internal/retry"},
		"services import the client: it stays light",
	},
	{"./internal/retry", nil, "the client imports it, and stays light"},
	{"./internal/leader", []string{"./internal/retry"}, "whatever is led, and by whom, is its user's matter"},
	{"./ingest", []string{"./client", "./schemas", "./internal"}, "stages meet in schemas"},
	{"./projector", []string{"./schemas", "./internal"}, "stages meet in schemas"},
	{"./query", []string{"./schemas", "./internal"}, "stages meet in schemas"},
	{"./internal", []string{"./internal", "./schemas"}, "what stages share knows no stage"},
}

// TestImports holds the picture of the architecture: services → client →
// schemas/stream → projector → schemas/clickhouse → query.
func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		if forTests(p.ImportPath) {
			continue
		}
		for _, r := range rules {
			if !within(p.ImportPath, r.folder) {
				continue
			}
			for _, name := range p.Imports {
				if within(name, ".") && !within(name, r.folder) && !within(name, r.may...) {
					t.Errorf("%s imports %s: %s", p.ImportPath, name, r.why)
				}
			}
		}
	}
}

// TestStagesApart holds the same for tests: a stage is tested without the
// others.
func TestStagesApart(t *testing.T) {
	stages := []string{"./ingest", "./projector", "./query"}
	for _, p := range packages(t) {
		for _, stage := range stages {
			if !within(p.ImportPath, stage) {
				continue
			}
			for _, name := range slices.Concat(p.Imports, p.Deps, p.TestImports, p.XTestImports) {
				if within(name, stages...) && !within(name, stage) {
					t.Errorf("%s depends on %s: stages meet in schemas", p.ImportPath, name)
				}
			}
		}
	}
}

// sharedFolders are the packages of a stage that know no system, and that its systems
// share.
var sharedFolders = map[string][]string{
	"./ingest":    {"acts", "history", "queues", "webhooks"},
	"./projector": {"fold", "keystore", "pglease"},
	"./query":     {"live", "reads"},
}

// systemFolders are the folders of each system, in and beside the stages. The pipeline is not among them: the event is what
// all others agree on.
var systemFolders = map[string][]string{
	"shards": {"./schemas/shard", "./internal/tracking", "./ingest/shards", "./query/shards"},
	"jobs": {
		"./schemas/job", "./schemas/source", "./internal/jobs", "./internal/sources", "./internal/ledger", "./ingest/jobs",
		"./ingest/scheduler", "./projector/jobs", "./query/jobs",
	},
	"batches": {
		"./schemas/batches", "./internal/recrawl", "./internal/reclassify", "./ingest/batches", "./projector/batches",
		"./projector/enrichment", "./query/batches",
	},
	"uploads": {"./schemas/uploads", "./internal/uploads", "./ingest/uploads", "./query/uploads"},
}

// systemUsers are the packages that know systems, with these and why. The program and the demonstration know all.
var systemUsers = []struct {
	user    string
	systems []string
	why     string
}{
	{"./cmd/millrace/internal/console", []string{"shards"}, "its users name the stages of shards"},
	{"./schemas/clickhouse", []string{"batches"}, "a row of its tables is an outcome"},
	{"./internal/acts/items", []string{"shards"}, "items of shards are selected by their files"},
	{"./ingest/acts", []string{"shards", "batches"}, "records have a member for errors of batches, and errors name files"},
	{"./query/acts", []string{"shards", "batches"}, "records have a member for errors of batches, and errors name files"},
	{"./projector/work", []string{"shards"}, "workers of shards speak of files in place of ids"},
}

// systemOf returns the system that a package belongs to; empty: none.
func systemOf(name string) string {
	for system, folders := range systemFolders {
		if within(name, folders...) {
			return system
		}
	}
	return ""
}

// TestSystemsApart holds that no system knows another, that what systems share knows none, and that nothing lies above the
// packages of a stage.
func TestSystemsApart(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		for stage, folders := range sharedFolders {
			if p.ImportPath == stage {
				t.Errorf("%s is a package: what is there belongs to a system, or to a package that systems share", stage)
			}
			if !within(p.ImportPath, stage) {
				continue
			}
			may := []string{}
			for _, folder := range folders {
				may = append(may, stage+"/"+folder)
			}
			system, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, stage+"/"), "/")
			for _, name := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if within(name, stage) && !within(name, stage+"/"+system) && !within(name, may...) {
					t.Errorf("%s imports %s: systems know nothing of each other", p.ImportPath, name)
				}
			}
		}
		if forTests(p.ImportPath) || p.ImportPath == "./cmd/millrace" || within(p.ImportPath, "./test", "./ingest/demo") {
			continue
		}
		for _, name := range p.Imports {
			of := systemOf(name)
			if of == "" || of == systemOf(p.ImportPath) {
				continue
			}
			known := false
			for _, u := range systemUsers {
				if within(p.ImportPath, u.user) && slices.Contains(u.systems, of) {
					known, used[u.user+" "+of] = true, true
				}
			}
			if !known {
				t.Errorf("%s imports %s, which belongs to %s", p.ImportPath, name, of)
			}
		}
	}
	for _, u := range systemUsers {
		for _, of := range u.systems {
			if !used[u.user+" "+of] {
				t.Errorf("%s does not know %s any more, which it may for: %s", u.user, of, u.why)
			}
		}
	}
}

// TestEngines holds that only the program, tests, and what runs for tests know
// the embedded engines.
func TestEngines(t *testing.T) {
	const engines = "./internal/embedded"
	for _, p := range packages(t) {
		if within(p.ImportPath, engines, "./cmd", "./test") || forTests(p.ImportPath) {
			continue
		}
		for _, name := range p.Deps {
			if within(name, engines) {
				t.Errorf("%s depends on %s", p.ImportPath, name)
			}
		}
	}
}

// TestClickHouseIsland holds that the embedded ClickHouse can be taken out of this
// module: it needs one small package besides its own, and does not name the program
// that it is part of.
func TestClickHouseIsland(t *testing.T) {
	const island = "./internal/embedded/clickhouse"
	for _, p := range packages(t) {
		if !within(p.ImportPath, island) {
			continue
		}
		for _, name := range p.Deps {
			if within(name, ".") && !within(name, island, "./internal/connlimit") {
				t.Errorf("%s depends on %s", p.ImportPath, name)
			}
		}
	}
	folder := filepath.Join("../..", island)
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(strings.ToLower(string(text))) {
			if strings.Contains(strings.ReplaceAll(line, module, ""), "millrace") {
				t.Errorf("%s: %s", path, line)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLight holds that the event needs the standard library alone, and the
// client little more than the client of NATS, and those of Prometheus, the
// circuit breaker, the backoff and the log on disk, and the API of OpenTelemetry, without
// its SDK: by it a service says in which trace it publishes.
func TestLight(t *testing.T) {
	light := []string{
		"./client", "./schemas/event", "./schemas/stream", "./internal/retry",
		"github.com/cenkalti/backoff",
		"github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "github.com/nats-io/nuid",
		"github.com/synadia-io/orbit.go", "github.com/klauspost/compress", "golang.org/x/crypto", "golang.org/x/sys",
		"github.com/sony/gobreaker", "github.com/tidwall",
		"github.com/prometheus", "github.com/beorn7/perks", "github.com/cespare/xxhash", "github.com/munnerz/goautoneg",
		"google.golang.org/protobuf",
	}
	for _, api := range []string{"attribute", "baggage", "codes", "internal", "propagation", "semconv", "trace"} {
		light = append(light, "go.opentelemetry.io/otel/"+api)
	}
	for _, p := range packages(t) {
		for _, name := range p.Deps {
			switch {
			case p.ImportPath == "./schemas/event" && !standard(name):
				t.Errorf("the event depends on %s", name)
			case p.ImportPath == "./client" && !standard(name) && !within(name, light...):
				t.Errorf("the client depends on %s", name)
			}
		}
	}
}

// TestBlackBoxes holds that nothing imports the black-box tests, nor packages
// for tests but tests.
func TestBlackBoxes(t *testing.T) {
	for _, p := range packages(t) {
		if within(p.ImportPath, "./test") {
			continue
		}
		for _, name := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if within(name, "./test") {
				t.Errorf("%s imports %s", p.ImportPath, name)
			}
		}
		for _, name := range p.Imports {
			if within(name, ".") && forTests(name) && !forTests(p.ImportPath) {
				t.Errorf("%s imports %s outside of its tests", p.ImportPath, name)
			}
		}
	}
}
