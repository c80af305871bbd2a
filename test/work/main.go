package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if role := os.Getenv(envRole); role != "" {
		if err := runDaemon(role); err != nil {
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
	err = run(ctx, cfg, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "work:", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	bin           string        // the program
	node          string        // folder of the Node daemon
	clients       string        // this program of another release, which every other daemon runs; empty: none does
	files, shards int           // to register
	items         int           // of a user-defined queue, instead of files; 0: files
	kill          time.Duration // how often something is killed, on average
	parts         bool          // Millrace and its Postgres are killed, too
	lease         time.Duration // after which a dead daemon's item is free
	seed          uint64
	limit         time.Duration // after which something counts as stuck
}

func parse(args []string, errOut io.Writer) (config, error) {
	cfg := config{bin: os.Getenv("MILLRACE_BIN")}
	if cfg.bin == "" {
		cfg.bin = "bin/millrace"
	}
	flags := flag.NewFlagSet("work", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.IntVar(&cfg.files, "files", 10_000, "files to register")
	flags.IntVar(&cfg.shards, "shards", 4, "shards of each")
	flags.IntVar(&cfg.items, "items", 0, "items of a user-defined queue, instead of files")
	flags.DurationVar(&cfg.kill, "kill", 2*time.Second, "how often a process is killed, on average")
	flags.BoolVar(&cfg.parts, "parts", true, "kill Millrace and its Postgres, too, and not daemons alone")
	flags.DurationVar(&cfg.lease, "lease", 10*time.Second, "after which the items of a dead daemon go to another")
	flags.Uint64Var(&cfg.seed, "seed", uint64(time.Now().UnixNano()), "of what is random")
	flags.StringVar(&cfg.node, "node", "test/node", "folder of the Node daemon and its modules")
	flags.StringVar(&cfg.clients, "clients", "", "this program of another release, which every other daemon in Go runs")
	flags.DurationVar(&cfg.limit, "limit", 20*time.Minute, "time after which something is stuck")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if cfg.files < 1 || cfg.shards < 1 || cfg.items < 0 || cfg.kill <= 0 || cfg.lease < time.Second {
		err := errors.New(
			"work: -files, -shards and -kill have to be positive, -items not negative, -lease at least 1s",
		)
		fmt.Fprintln(errOut, err)
		return cfg, err
	}
	return cfg, nil
}

// run does it all and reports.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.limit, errors.New("something is stuck"))
	defer cancel()
	dir, err := os.MkdirTemp("", "millrace-work-*")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(out, "all is kept in", dir)
		}
	}()
	if cfg.bin, err = filepath.Abs(cfg.bin); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // Postgres may run as another user
		return err
	}
	in, err := install(ctx, cfg, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.stop()) }()
	var jobs jobs = &shards{cfg.files, cfg.shards, in}
	if cfg.items > 0 {
		jobs = newOwn(cfg, in)
	}
	fmt.Fprintf(out, "%d pieces of work in %v, seed %d\n", jobs.pieces(), jobs.queues(), cfg.seed)
	c := newFleet(cfg, in, jobs, dir)
	begin := time.Now()
	working, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer end() // when a daemon or Millrace has failed, nothing gets done any more
		ended <- c.run(ctx, working)
	}()
	err = fill(working, jobs, out)
	took := time.Since(begin)
	end()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	return c.check(ctx, took, out)
}
