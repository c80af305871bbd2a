package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// crew are the daemons. Each is started again when it has been killed.
type crew struct {
	cfg     config
	in      *installation
	dir     string
	daemons []*daemon
	kills   int
}

// daemon is one place in the crew.
type daemon struct {
	name string
	role string // go, node or http

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

func newCrew(cfg config, in *installation, dir string) *crew {
	c := &crew{cfg: cfg, in: in, dir: dir}
	for i, role := range []string{"go", "go", "node", "node", "http", "http"} {
		c.daemons = append(c.daemons, &daemon{name: role + strconv.Itoa(i), role: role})
	}
	return c
}

// strikes is how many kills wait for a daemon that has a piece in hand. Others
// come at any time.
const strikes = 3

// run keeps the daemons running, and kills one now and then, until ctx ends;
// then it asks them to end.
func (c *crew) run(ctx context.Context) error {
	errs := make([]error, len(c.daemons))
	var all sync.WaitGroup
	for i, d := range c.daemons {
		all.Go(func() { errs[i] = c.keep(ctx, d) })
	}
	random := rand.New(rand.NewPCG(c.cfg.seed, 1))
	for ctx.Err() == nil {
		var killed bool
		if c.kills < strikes {
			killed = c.strike(ctx, random)
		} else {
			killed = c.daemons[random.IntN(len(c.daemons))].signal(syscall.SIGKILL)
		}
		if killed {
			c.kills++
		}
		sleep(ctx, time.Duration(random.ExpFloat64()*float64(c.cfg.kill)))
	}
	all.Wait()
	return errors.Join(errs...)
}

// strike kills a daemon that has a piece in hand, as soon as there is one.
func (c *crew) strike(ctx context.Context, random *rand.Rand) bool {
	for ; ctx.Err() == nil; sleep(ctx, time.Millisecond) {
		for _, i := range random.Perm(len(c.daemons)) {
			if c.daemons[i].strike() {
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
	return l.read(spans) == nil && unfinished(spans) > 0 && d.signal(syscall.SIGKILL)
}

// keep runs one daemon after the other.
func (c *crew) keep(ctx context.Context, d *daemon) error {
	for ctx.Err() == nil {
		l := life{daemon: d.name, journal: filepath.Join(c.dir, d.name+"-"+strconv.Itoa(len(d.lives))+".notes")}
		cmd, err := c.command(d, l)
		if err != nil {
			return err
		}
		log, err := os.OpenFile(filepath.Join(c.dir, d.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
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

func (c *crew) command(d *daemon, l life) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	if d.role == "node" {
		cmd = exec.Command("node", filepath.Join(c.cfg.node, "daemon.mjs"))
	}
	cmd.Env = append(os.Environ(), envName+"="+d.name, envJournal+"="+l.journal, envLease+"="+strconv.FormatFloat(c.cfg.lease.Seconds(), 'f', -1, 64),
		envNATS+"="+c.in.nats, envHTTP+"="+c.in.http)
	if d.role != "node" {
		cmd.Env = append(cmd.Env, envRole+"="+d.role)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}
