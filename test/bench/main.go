package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if name := os.Getenv(envPart); name != "" {
		if err := runPart(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	cfg, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = measure(ctx, cfg, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	bin     string // the program to measure
	events  int
	only    []string
	runs    int
	json    bool
	page    string // Markdown page to write the table into; empty: none
	profile string // file for a profile of the fold; empty: none

	items  int // of batches; 0: as many as events
	storm  int // items that are all RATE_LIMITED; 0: a fifth of that
	stored int // items that one is looked up among by its id; 0: as many as events

	rows int // of uploads; 0: a fifth of events

	subscribers int  // of live views
	apart       bool // they are served by a process of its own
}

var sectionNames = []string{"backlog", "query", "live", "subscribers", "http", "publish", "shards", "work", "scheduler", "batches", "uploads", "cluster"}

func parse(args []string, errOut io.Writer) (config, error) {
	cfg := config{bin: os.Getenv("MILLRACE_BIN")}
	if cfg.bin == "" {
		cfg.bin = "bin/millrace"
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.IntVar(&cfg.events, "events", 1_000_000, "events in the backlog, and jobs of the scheduler")
	flags.IntVar(&cfg.runs, "runs", 1, "how often to measure everything; the report has the medians")
	flags.BoolVar(&cfg.json, "json", false, "print JSON in place of a table")
	flags.StringVar(&cfg.page, "markdown", "", "page to write the table into as Markdown, between its two marks")
	flags.StringVar(&cfg.profile, "profile", "",
		"file for a processor profile of the program while it folds the backlog, while many watch, or in a burst of jobs")
	flags.IntVar(&cfg.subscribers, "subscribers", 10_000, "subscribers of live views")
	flags.IntVar(&cfg.items, "items", 0, "items of batches that are read from stored objects; 0: as many as -events")
	flags.IntVar(&cfg.storm, "storm", 0, "items that are all RATE_LIMITED; 0: a fifth of -items")
	flags.IntVar(&cfg.stored, "stored", 0, "stored items among which one is found by its id; 0: as many as -events")
	flags.IntVar(&cfg.rows, "rows", 0, "rows of 600 bytes that are uploaded; 0: a fifth of -events")
	flags.BoolVar(&cfg.apart, "apart", false, "have subscribers served by a process that has the role query alone")
	only := flags.String("only", strings.Join(sectionNames, ","), "sections to measure")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	cfg.only = strings.Split(*only, ",")
	cfg.items = cmp.Or(cfg.items, cfg.events)
	cfg.storm, cfg.stored = cmp.Or(cfg.storm, cfg.items/5), cmp.Or(cfg.stored, cfg.events)
	cfg.rows = cmp.Or(cfg.rows, cfg.events/5)
	return cfg, cfg.check(errOut)
}

func (c *config) check(errOut io.Writer) error {
	err := func() error {
		for _, name := range c.only {
			if !slices.Contains(sectionNames, name) {
				return fmt.Errorf("-only: there is no section %q, but %s", name, strings.Join(sectionNames, ", "))
			}
		}
		if c.events < 1000 || c.runs < 1 {
			return errors.New("-events has to be at least 1000, -runs at least 1")
		}
		if c.items < 0 || c.storm < 0 || c.stored < 0 || c.rows < 0 {
			return errors.New("-items, -storm, -stored and -rows must not be negative")
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(errOut, "bench:", err)
	}
	return err
}

// bench is one execution of the program.
type bench struct {
	cfg     config
	dir     string // for all temporary data
	out     io.Writer
	history *history
	data    string    // folder in which the history is folded
	running *millrace // on that folder
	posts   posts     // what has been published to it since
	echoed  posts     // and to no program
	lines   []line    // of this run
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func (b *bench) add(l ...line) { b.lines = append(b.lines, l...) }

// measure runs everything and prints the report.
func measure(ctx context.Context, cfg config, out, progress io.Writer) (err error) {
	if cfg.page != "" { // better now than after an hour
		if _, _, err := splitPage(cfg.page); err != nil {
			return err
		}
	}
	if cfg.bin, err = filepath.Abs(cfg.bin); err != nil {
		return err
	}
	if _, err := os.Stat(cfg.bin); err != nil {
		return fmt.Errorf("%w: build it with \"go build -o bin/millrace ./cmd/millrace\", or set MILLRACE_BIN", err)
	}
	dir, err := os.MkdirTemp("", "millrace-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	b := &bench{cfg: cfg, dir: dir, out: progress, history: newHistory(1, cfg.events, time.Now().Add(-time.Minute))}
	r := report{Machine: thisMachine(), Events: cfg.events, Runs: cfg.runs}
	var runs [][]line
	for i := range cfg.runs {
		b.say("run %d of %d", i+1, cfg.runs)
		if err := b.run(ctx); err != nil {
			return err
		}
		runs = append(runs, b.lines)
	}
	r.Lines = summarize(runs)
	if cfg.page != "" {
		if err := r.intoPage(cfg.page); err != nil {
			return err
		}
	}
	if cfg.json {
		return r.json(out)
	}
	return r.table(out)
}

// run measures every section once.
func (b *bench) run(ctx context.Context) (err error) {
	b.lines, b.running, b.data = nil, nil, ""
	b.posts.next.Store(0)
	defer func() {
		if b.running != nil {
			err = errors.Join(err, b.running.close())
		}
		if b.data != "" {
			err = errors.Join(err, os.RemoveAll(b.data))
		}
	}()
	sections := map[string]func(context.Context) error{
		"backlog": b.backlog, "query": b.query, "live": b.live, "subscribers": b.subscribers,
		"http": b.post, "publish": b.publish,
		"shards": b.shards, "work": b.work, "scheduler": b.scheduler,
		"batches": b.batches, "uploads": b.uploads, "cluster": b.cluster,
	}
	for _, name := range sectionNames {
		if !slices.Contains(b.cfg.only, name) {
			continue
		}
		if err := sections[name](ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
