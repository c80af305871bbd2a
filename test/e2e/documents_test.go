package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/ingest/history/historytest"
	"github.com/millrace-io/millrace/schemas/stream"
)

const repository = "../.."

// maxUnrun is how many blocks may say why they are not run.
const maxUnrun = 2

// TestDocumentedCommands runs what the README and the documents tell their readers to
// run, as they have it, on an installation of its own. docs/README.md says how
// blocks are marked.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	runbooks, err := filepath.Glob(filepath.Join(repository, "docs", "runbooks", "*.md"))
	if err != nil || len(runbooks) < 40 {
		t.Fatalf("%d runbooks, %v", len(runbooks), err)
	}
	pages = append([]string{filepath.Join(repository, "README.md"), filepath.Join(repository, "deploy", "README.md")},
		append(pages, runbooks...)...)
	all, run, unrun := map[string][]block{}, 0, 0
	for _, page := range pages {
		all[page] = blocks(t, page)
		for _, b := range all[page] {
			switch {
			case b.unrun != "":
				unrun++
			case b.language == "sh":
				run++
			}
		}
	}
	if run < 25 || unrun > maxUnrun {
		t.Errorf("%d blocks are run, %d are not: at least 25 have to be, and at most %d not", run, unrun, maxUnrun)
	}
	r := newReader(t)
	for _, page := range pages {
		name, err := filepath.Rel(repository, page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			for _, b := range all[page] {
				switch {
				case b.unrun != "" && len(b.unrun) < 20:
					t.Errorf("line %d: %q is no reason not to run it", b.line, b.unrun)
				case b.unrun != "":
				case b.language == "sh":
					r.run(t, b)
				default:
					b.check(t)
				}
			}
		})
	}
}

// block is a fenced block of a page.
type block struct {
	line     int
	language string
	serves   bool   // until it is told to end
	streams  bool   // prints without end
	prints   string // has to be in what it prints
	unrun    string // why it is not run
	from     string // the file that has these lines
	text     string
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")
	attribute   = regexp.MustCompile(`^(\w+)(?:=(?:"([^"]+)"|(\S+)))?\s*`)
)

// blocks returns a page's fenced blocks. Each one has to name its language, and
// to have no mark that is not known.
func blocks(t *testing.T, page string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range fencedBlock.FindAllSubmatchIndex(text, -1) {
		info := string(text[at[2]:at[3]])
		b := block{line: 1 + strings.Count(string(text[:at[0]]), "\n"), text: string(text[at[4]:at[5]])}
		b.language, info, _ = strings.Cut(info, " ")
		if !slices.Contains([]string{"sh", "text", "json", "yaml", "go", "js", "python", "sql", "promql", "mermaid"}, b.language) {
			t.Errorf("%s, line %d: a block of %q: name its language, sh for commands", page, b.line, b.language)
		}
		for info != "" {
			mark := attribute.FindStringSubmatch(info)
			switch {
			case mark == nil:
				t.Fatalf("%s, line %d: what is %q?", page, b.line, info)
			case mark[1] == "serves":
				b.serves = true
			case mark[1] == "streams":
				b.streams = true
			case mark[1] == "prints":
				b.prints = mark[2] + mark[3]
			case mark[1] == "unrun":
				b.unrun = mark[2]
			case mark[1] == "from":
				b.from = mark[3]
			default:
				t.Errorf("%s, line %d: what is %q?", page, b.line, mark[1])
			}
			info = info[len(mark[0]):]
		}
		all = append(all, b)
	}
	return all
}

// check holds code to the file that it is from, line by line. Lines between
// them may be left out.
func (b block) check(t *testing.T) {
	t.Helper()
	switch b.language {
	case "go", "js", "python":
	case "sql":
		t.Errorf("line %d: SQL is run by an sh block, or says why not", b.line)
		return
	default:
		return
	}
	source, err := os.ReadFile(filepath.Join(repository, b.from))
	if b.from == "" || err != nil {
		t.Errorf("line %d: %s has to name the file that it is from: %v", b.line, b.language, err)
		return
	}
	rest := string(source)
	for line := range strings.Lines(b.text) {
		_, after, found := strings.Cut(rest, strings.TrimSpace(line))
		if !found {
			t.Errorf("line %d: %s does not have, or not there: %s", b.line, b.from, line)
			return
		}
		rest = after
	}
}

// reader is somebody who runs what documents say, in a folder that has bin and
// data as a checkout has.
type reader struct {
	server *server
	folder string
	own    *strings.Replacer // puts this installation in the place of the documented one
	env    []string
}

func newReader(t *testing.T) *reader {
	t.Helper()
	folder := dataFolder(t)
	bin := filepath.Join(folder, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(bin, "millrace")); err != nil {
		t.Fatal(err)
	}
	buildNATSCommand(t, bin)
	s := prepare(t)
	s.data = filepath.Join(folder, "data")
	s.start()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{server: s, folder: folder}
	dsn := s.postgresDSN()
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	r.own = strings.NewReplacer(
		"127.0.0.1:8075", s.ports.HTTP, "127.0.0.1:4222", s.ports.NATS, "127.0.0.1:9000", s.ports.ClickHouse,
		"127.0.0.1:8123", s.ports.ClickHouseHTTP, "127.0.0.1:5432", s.ports.Postgres,
		"127.0.0.1:8076", freePort(t), "127.0.0.1:8077", freePort(t),
		// Of an installation that is restored.
		"127.0.0.1:4322", freePort(t), "127.0.0.1:9100", freePort(t), "127.0.0.1:8223", freePort(t),
		"127.0.0.1:5532", freePort(t),
		"postgres://reader:secret@crawler.example/crawler", dsn,
		"postgres://reader:secret@classifier.example/classifier", dsn,
		"postgres://reader:secret@publisher.example/publisher", dsn,
		"2026-02-10", yesterday,
	)
	r.env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "REPOSITORY=" + root,
		"XDG_CONFIG_HOME=" + filepath.Join(folder, "config"),
		// Where commands say no address, this installation is meant.
		"MILLRACE_NATS_URL=" + s.natsURL(), "NATS_URL=" + s.natsURL(),
		"MILLRACE_HTTP_ADDR=" + s.ports.HTTP, "MILLRACE_URL=" + s.url(""),
		"MILLRACE_CLICKHOUSE_DSN=clickhouse://analyst@" + s.ports.ClickHouse + "/millrace",
	}
	r.prepare(t, yesterday)
	return r
}

// buildNATSCommand builds the nats command of a module of its own.
func buildNATSCommand(t *testing.T, bin string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", filepath.Join(bin, "nats"), "github.com/nats-io/natscli/nats")
	cmd.Dir = filepath.Join(repository, "test", "natscli")
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("build the nats command: %v\n%s", err, out)
		}
		t.Logf("without the nats command: %v\n%s", err, out)
	}
}

// prepare has happen what the documents speak of: services have a history, and
// the first 123 messages of the stream are dead letters.
func (r *reader) prepare(t *testing.T, day string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), r.server.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	historytest.Create(t, pool)
	historytest.Fill(t, pool, day+"T00:00:00Z", 10, 40, 20)
	js, err := jetstream.New(r.server.nats())
	if err != nil {
		t.Fatal(err)
	}
	letter := `{"article_url":"https://example.com/old","source_name":"example_com","stage":"archived",` +
		`"occurred_at":"` +
		time.Now().UTC().Format(time.RFC3339) + `","service_name":"archive"}`
	var last uint64
	for range 123 {
		ack, err := js.Publish(t.Context(), "events.archived.00", []byte(letter))
		if err != nil {
			t.Fatal(err)
		}
		last = ack.Sequence
	}
	if last != 123 {
		t.Fatalf("the message that the documents name is at %d of %s", last, stream.Events)
	}
	r.server.caughtUp()
}

// surroundings let no request fail in silence, and have make say what it would
// do. It would begin this test again.
const surroundings = `
cd "$FOLDER"
curl() { command curl "$FAIL" --silent --show-error --max-time 60 "$@"; }
make() { command make --directory="$REPOSITORY" --dry-run "$@" >/dev/null; }
`

// run runs the commands of a block as one script.
func (r *reader) run(t *testing.T, b block) {
	t.Helper()
	if tool := missingTool(r.env[0], b.text); tool != "" {
		t.Logf("line %d is not run without %s", b.line, tool)
		return
	}
	text := r.own.Replace(b.text)
	if b.serves { // signals go to the program, and not to the shell
		text = strings.Replace(text, "\nbin/millrace serve", "\nexec bin/millrace serve", 1)
	}
	fail := "--fail-with-body"
	if b.streams { // what is printed is no refusal
		fail = "--fail"
	}
	env := append(slices.Clone(r.env), "FOLDER="+r.folder, "FAIL="+fail)
	p := launchProgram(t, "/bin/bash", env, nil, "-euo", "pipefail", "-c", surroundings+text)
	if b.serves || b.streams {
		b.end(t, p)
	}
	if status := p.wait(t, waitLimit); status != 0 && !b.streams {
		t.Errorf("line %d: exit status %d:\n%s\n%s\n%s", b.line, status, b.text, p.out, p.log)
	} else if !strings.Contains(p.out.String(), b.prints) {
		t.Errorf("line %d does not print %q:\n%s\n%s", b.line, b.prints, b.text, p.out)
	} else if testing.Verbose() {
		t.Logf("line %d:\n%s\n%.2000s%.2000s", b.line, b.text, p.out, p.log)
	}
	r.server.caughtUp()
}

// end ends commands that would go on for ever, once they do what they are for.
func (b block) end(t *testing.T, p *process) {
	t.Helper()
	poll(t, startLimit, "the commands to serve or to print", func() bool {
		return !p.running() || b.serves && strings.Contains(p.log.String(), `"msg":"serving"`) || b.streams &&
			p.out.String() != ""
	})
	if !p.running() {
		t.Errorf("line %d: it has ended by itself:\n%s\n%s", b.line, b.text, p.log)
		return
	}
	whom := p.cmd.Process.Pid
	if b.streams { // the shell and what it runs
		whom = -whom
	}
	if err := syscall.Kill(whom, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// missingTool names a tool that a script uses and this machine has not. Where
// continuous integration runs this, none may be missing.
func missingTool(path, script string) string {
	if os.Getenv("CI") == "true" {
		return ""
	}
	for _, tool := range []string{"curl", "nats", "openssl", "psql", "sha256sum"} {
		uses := regexp.MustCompile(`(?m)(^|[\s(|])` + tool + ` `).MatchString(script)
		found := slices.ContainsFunc(filepath.SplitList(strings.TrimPrefix(path, "PATH=")), func(folder string) bool {
			_, err := os.Stat(filepath.Join(folder, tool))
			return err == nil
		})
		if uses && !found {
			return tool
		}
	}
	return ""
}
