package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fleet are the daemons. Each is started again when it has been killed.
type fleet struct {
	cfg     config
	in      *installation
	jobs    jobs
	dir     string
	daemons []*daemon

	kills, parts int // how often daemons were killed; and Millrace or its Postgres
	outages      []outage
	calm         time.Time // when the last of these was over; the next comes after a lease
}

// daemon is one place in the fleet.
type daemon struct {
	name string
	role string // go, node or http
	bin  string // the program; empty: this one

	mu      sync.Mutex
	cmd     *exec.Cmd
	journal string // its notes
	lives   []life
}

// life is one process: its notes, and when it was dead for sure.
type life struct {
	daemon, journal string
	end             time.Time
}

func newFleet(cfg config, in *installation, j jobs, dir string) *fleet {
	f := &fleet{cfg: cfg, in: in, jobs: j, dir: dir}
	for i, role := range []string{"go", "go", "node", "node", "http", "http"} {
		d := &daemon{name: role + strconv.Itoa(i), role: role}
		if i%2 == 1 {
			d.bin = cfg.clients
		}
		f.daemons = append(f.daemons, d)
	}
	return f
}

// strikes is how many kills wait for a daemon that has a piece in hand. Others
// come at any time.
const strikes = 3

// run keeps the daemons running, and kills something now and then, until working
// ends; then it asks them to end. What it has killed is there again when it
// returns, unless ctx ends.
func (f *fleet) run(ctx, working context.Context) error {
	working, end := context.WithCancel(working)
	defer end()
	errs := make([]error, len(f.daemons))
	var all sync.WaitGroup
	for i, d := range f.daemons {
		all.Go(func() {
			defer end() // with an error, before its time
			errs[i] = f.keep(working, d)
		})
	}
	random := rand.New(rand.NewPCG(f.cfg.seed, 1))
	var err error
	for working.Err() == nil && err == nil {
		err = f.killOne(ctx, working, random)
		sleep(working, time.Duration(random.ExpFloat64()*float64(f.cfg.kill)))
	}
	end()
	all.Wait()
	return errors.Join(append(errs, err)...)
}

// killOne kills one process: the first times a daemon with a piece in hand, then
// any daemon, or Millrace, or its Postgres.
func (f *fleet) killOne(ctx, working context.Context, random *rand.Rand) error {
	targets := len(f.daemons)
	if f.cfg.parts && time.Since(f.calm) > f.cfg.lease {
		targets += 2
	}
	target := random.IntN(targets)
	switch {
	case f.kills < strikes:
		if f.strike(working, random) {
			f.kills++
		}
	case target < len(f.daemons):
		if f.daemons[target].signal(syscall.SIGKILL) {
			f.kills++
		}
	case target == len(f.daemons):
		f.parts++
		defer func() { f.calm = time.Now() }()
		begin := time.Now()
		err := f.in.kill(ctx)
		f.outages = append(f.outages, outage{begin, time.Now().Add(f.cfg.lease)})
		return err
	default:
		f.parts++
		defer func() { f.calm = time.Now() }()
		return f.in.killPostgres(ctx)
	}
	return nil
}

// strike kills a daemon that has a piece in hand, as soon as there is one.
func (f *fleet) strike(ctx context.Context, random *rand.Rand) bool {
	for ; ctx.Err() == nil; sleep(ctx, time.Millisecond) {
		for _, i := range random.Perm(len(f.daemons)) {
			if f.daemons[i].strike() {
				return true
			}
		}
	}
	return false
}

// strike kills the daemon if it has a piece in hand. It stands still while its
// notes are read.
func (d *daemon) strike() bool {
	if !d.signal(syscall.SIGSTOP) {
		return false
	}
	defer d.signal(syscall.SIGCONT)
	d.mu.Lock()
	l := life{daemon: d.name, journal: d.journal}
	d.mu.Unlock()
	spans := map[piece][]span{}
	return l.read(spans, map[piece][]int{}) == nil && unfinished(spans) > 0 && d.signal(syscall.SIGKILL)
}

// keep runs one daemon after the other.
func (f *fleet) keep(ctx context.Context, d *daemon) error {
	for ctx.Err() == nil {
		l := life{daemon: d.name, journal: filepath.Join(f.dir, d.name+"-"+strconv.Itoa(len(d.lives))+".notes")}
		cmd, err := f.command(d, l)
		if err != nil {
			return err
		}
		log, err := os.OpenFile(filepath.Join(f.dir, d.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", d.name, err)
		}
		d.mu.Lock()
		d.cmd, d.journal = cmd, l.journal
		d.mu.Unlock()
		stop := context.AfterFunc(ctx, func() { d.signal(syscall.SIGTERM) })
		err = cmd.Wait()
		stop()
		log.Close()
		d.mu.Lock()
		d.cmd = nil
		l.end = time.Now()
		d.lives = append(d.lives, l)
		d.mu.Unlock()
		var exit *exec.ExitError
		if err != nil && !(errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()) {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s ended by itself: %w\n%s", d.name, err, text[max(0, len(text)-2048):])
		}
	}
	return nil
}

func (d *daemon) signal(s syscall.Signal) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd != nil && d.cmd.Process.Signal(s) == nil
}

func (f *fleet) command(d *daemon, l life) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(cmp.Or(d.bin, self))
	if d.role == "node" {
		cmd = exec.Command("node", filepath.Join(f.cfg.node, "daemon.mjs"))
	}
	cmd.Env = append(os.Environ(), envName+"="+d.name, envJournal+"="+l.journal,
		envLease+"="+strconv.FormatFloat(f.cfg.lease.Seconds(), 'f', -1, 64),
		envNATS+"="+f.in.nats, envHTTP+"="+f.in.http, envQueues+"="+strings.Join(f.jobs.queues(), ","))
	if d.role != "node" {
		cmd.Env = append(cmd.Env, envRole+"="+d.role)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}
