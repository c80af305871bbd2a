package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	serveSubprocess()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rot:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	seed    uint64
	trials  int
	verbose bool
	only    string // a part: nats, keys or spool; empty: all
}

// run makes the trials, and returns whether none was silent or misnamed.
func run(ctx context.Context, args []string, out io.Writer) (ok bool, err error) {
	var cfg config
	flags := flag.NewFlagSet("rot", flag.ContinueOnError)
	flags.Uint64Var(&cfg.seed, "seed", 0, "seed of the first trial; the next trials have the next seeds; 0: a random one")
	flags.IntVar(&cfg.trials, "n", 2000, "how many trials")
	flags.BoolVar(&cfg.verbose, "v", false, "print what each trial found")
	flags.StringVar(&cfg.only, "part", "", "damage only files of nats, keys or spool")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if cfg.seed == 0 {
		cfg.seed = uint64(rand.Uint32())
	}
	dir, err := os.MkdirTemp(memory(), "rot-")
	if err != nil {
		return false, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := prepare(ctx, dir, cfg.only)
	if err != nil {
		return false, fmt.Errorf("prepare: %w", err)
	}
	fmt.Fprintf(out, "seeds %d to %d\n", cfg.seed, cfg.seed+uint64(cfg.trials)-1)
	t := newTable()
	for i := range cfg.trials {
		if ctx.Err() != nil {
			break
		}
		seed := cfg.seed + uint64(i)
		r, err := p.trial(ctx, seed)
		if ctx.Err() != nil {
			break // what was found by then is printed
		}
		if err != nil {
			return false, fmt.Errorf("trial with seed %d: %w", seed, err)
		}
		t.add(r)
		if cfg.verbose || r.outcome == silent || r.outcome == misnamed {
			fmt.Fprintln(out, r)
		}
	}
	t.print(out)
	return t.count(silent) == 0 && t.count(misnamed) == 0, nil
}

// memory is the folder of a file system in memory, where there is one: what the parts
// sync to disk would take most of the time.
func memory() string {
	const shm = "/dev/shm"
	if _, err := os.Stat(shm); err != nil || os.Getenv("TMPDIR") != "" {
		return "" // the usual folder
	}
	return shm
}
