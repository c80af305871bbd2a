package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(envPart) != "" {
		os.Exit(runPart(os.Stderr))
	}
	if status, done := withOwnMounts(); done {
		os.Exit(status)
	}
	cfg, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	if cfg.catalogue {
		if err := printCatalogue(os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if cfg.record != "" {
		err := recordOutages(ctx, cfg, os.Stderr)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, "faults:", err)
			os.Exit(1)
		}
		return
	}
	r, err := run(ctx, cfg, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
	r.print(os.Stdout)
	if r.failed() {
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	bin     string // the program to break; empty: build it
	from    string // the program of an earlier release, from which it is upgraded; empty: it is not
	seed    uint64
	length  time.Duration
	kinds   []kind
	named   bool // the kinds are named one by one
	rate    int  // events a second, on average
	groups  int  // slot groups
	nodes   int  // NATS servers
	keep    bool
	soak    bool
	overlap bool // from the first round on

	uploadRows int // of a large upload; 0: there is none

	work    int    // items that workers have beside files' shards, and nothing else is done; 0: there are none
	node    string // folder of the worker in Node
	clients string // this program of another release, which every other worker in Go runs; empty: none does
	parts   string // this program of another release, which runs NATS and Postgres; empty: this one does

	catalogue bool // print it, and break nothing

	record  string // folder for the metrics of outages; empty: they are not recorded
	outages string // that are recorded

	peer    peer          // in place of the projectors
	ackWait time.Duration // of the peer
}

func parse(args []string, errOut io.Writer) (config, error) {
	cfg := config{bin: os.Getenv("MILLRACE_BIN")}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Uint64Var(&cfg.seed, "seed", 0, "decides the history and the plan; 0: a random one")
	flags.DurationVar(&cfg.length, "for", 2*time.Minute, "how long events are published and faults act")
	flags.IntVar(&cfg.rate, "rate", 400, "events a second, on average")
	flags.IntVar(&cfg.groups, "groups", 0, "slot groups; 0: 1 for odd seeds, 4 for even ones")
	flags.IntVar(&cfg.nodes, "nodes", 1, "NATS servers: 1, or 3 that hold each stream in three copies")
	flags.BoolVar(&cfg.overlap, "overlap", false,
		"let faults overlap at once, and not only when each kind has acted alone")
	flags.BoolVar(&cfg.keep, "keep", false, "leave the folder with all data and logs, as a failure does")
	flags.BoolVar(&cfg.soak, "soak", false, "inject no faults, and look for what grows: memory, open files, goroutines")
	flags.BoolVar(&cfg.catalogue, "catalogue", false, "print all kinds of faults as Markdown, and break nothing")
	flags.IntVar(&cfg.uploadRows, "upload-rows", 0, "rows of a large upload beside the others; 0: there is none")
	flags.IntVar(&cfg.work, "work", 0, "have workers that are killed work so many items, and files' shards, and compare only that")
	flags.StringVar(&cfg.node, "node", "test/node", "with -work, folder of the worker in Node and its modules")
	flags.StringVar(&cfg.clients, "clients", "", "with -work, this program of another release, which every other worker in Go runs")
	flags.StringVar(&cfg.parts, "parts", "", "this program of another release, which runs NATS and Postgres")
	flags.StringVar(&cfg.from, "from", "", "program of an earlier release, to begin with and to upgrade from")
	flags.StringVar(&cfg.record, "record", "", "record the metrics of outages into this folder, and check nothing")
	flags.StringVar(&cfg.outages, "outages", "all", "outages to record, separated by commas")
	flags.DurationVar(&cfg.ackWait, "ack-wait", peerAckWait, "how long a peer may keep a message")
	peerName := flags.String("peer", "", fmt.Sprint("break what is used in place of Millrace's projectors: ", peers))
	names := flags.String(
		"faults", "all", "kinds to inject, separated by commas; none for a run without, all for "+kindNames(),
	)
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	var err error
	switch {
	case cfg.rate < 1 || cfg.length <= 0:
		err = errors.New("-rate and -for have to be positive")
	case cfg.nodes != 1 && cfg.nodes != 3:
		err = errors.New("-nodes has to be 1 or 3")
	case cfg.uploadRows < 0:
		err = errors.New("-upload-rows must not be negative")
	case cfg.soak && *peerName != "":
		err = errors.New("-soak is not for peers")
	case cfg.from != "" && (cfg.soak || *peerName != ""):
		err = errors.New("-from is neither for -soak nor for peers")
	case cfg.work < 0 || cfg.work > 0 && (cfg.soak || *peerName != "" || cfg.from != ""):
		err = errors.New("-work must not be negative, and is neither for -soak nor for peers nor for -from")
	case cfg.soak && *names != "all" && *names != "none":
		err = errors.New("-soak injects no faults")
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	default:
		cfg.named = *names != "all" && *names != "none"
		if cfg.kinds, err = parseKinds(*names); err == nil {
			cfg.peer, err = parsePeer(*peerName)
		}
		if cfg.work > 0 && *names == "all" {
			cfg.kinds = slices.Clone(workersFaults)
		}
		if err == nil && cfg.work > 0 && slices.ContainsFunc(cfg.kinds, needsClocks) {
			err = errors.New("-work is not for faults of clocks: leases end by them")
		}
		for _, path := range []*string{&cfg.from, &cfg.clients, &cfg.parts, &cfg.node} { // each process has a folder of its own
			if err == nil && *path != "" {
				*path, err = filepath.Abs(*path)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(errOut, "faults:", err)
	}
	if cfg.soak {
		cfg.kinds = nil
	}
	if cfg.seed == 0 {
		cfg.seed = uint64(rand.Uint32()) + 1
	}
	if cfg.groups == 0 {
		cfg.groups = []int{4, 1}[cfg.seed%2]
	}
	return cfg, err
}

// whole tells whether everything that Millrace does is tried.
func (c config) whole() bool { return !c.soak && c.peer == noPeer && c.work == 0 }

// workAckWait is how long a worker may keep a message of a shard.
func (c config) workAckWait() time.Duration {
	if c.work > 0 {
		return workersLease
	}
	return workAckWait
}

// fit leaves out the kinds that this trial, or this machine, is not for. Those
// that were named must not be left out, nor those that the machine is not for
// where continuous integration relies on them.
func (c *config) fit(out io.Writer) error {
	if err := c.leaveOutUnfit(); err != nil {
		return err
	}
	if !canMount() {
		if err := c.spare(needsDisk, errNoDisks, out); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(c.kinds, needsClocks) {
		if err := clocksWork(); err != nil {
			return c.spare(needsClocks, err, out)
		}
	}
	return nil
}

// leaveOutUnfit leaves out what breaks parts that this trial has not.
func (c *config) leaveOutUnfit() error {
	names := c.leaveOut(func(k kind) bool { return !suits(k, *c) || !c.peer.suits(k) })
	if c.named && names != "" {
		return fmt.Errorf("-faults: %s: not with -nodes %d -groups %d%s", names, c.nodes, c.groups, c.peer.flag())
	}
	return nil
}

// spare leaves out what the machine is not for, if that will do.
func (c *config) spare(kinds func(kind) bool, why error, out io.Writer) error {
	names := c.leaveOut(kinds)
	switch {
	case names == "":
		return nil
	case c.named || inCI():
		return fmt.Errorf("-faults: %s: %w", names, why)
	}
	fmt.Fprintf(out, "without %s: %v\n", names, why)
	return nil
}

// leaveOut returns the names of the kinds that it leaves out.
func (c *config) leaveOut(unfit func(kind) bool) string {
	fit := slices.DeleteFunc(slices.Clone(c.kinds), unfit)
	out := slices.DeleteFunc(c.kinds, func(k kind) bool { return !unfit(k) })
	c.kinds = fit
	return join(out, ", ")
}

// inCI tells whether continuous integration runs this: it is not to pass there
// for want of what it needs.
func inCI() bool { return os.Getenv("CI") == "true" }

// folder makes the folder for all data, and the function that removes it.
func (c config) folder() (dir string, remove func(failed bool) string, err error) {
	dir, err = os.MkdirTemp("", "millrace-faults-*")
	if err != nil {
		return "", nil, err
	}
	// Postgres runs as another user where this program runs as root.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", nil, err
	}
	return dir, func(failed bool) string {
		if c.keep || failed {
			return "data and logs are left in " + dir
		}
		if err := os.RemoveAll(dir); err != nil {
			return "the folder is not removed: " + err.Error()
		}
		return ""
	}, nil
}

// binary returns the program to break, built into dir unless it is given.
func (c config) binary(ctx context.Context, dir string) (string, error) {
	if c.bin != "" {
		path, err := filepath.Abs(c.bin)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("MILLRACE_BIN: %w", err)
		}
		return path, nil
	}
	path := filepath.Join(dir, "millrace")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path,
		"github.com/millrace-io/millrace/cmd/millrace").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}
