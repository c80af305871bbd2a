package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a part of the installation, kept running as a service manager
// would: when it ends it is started again, unless a fault holds it down.
type process struct {
	name string
	bin  string
	args []string
	env  []string
	log  string // file, appended to over restarts
	up   string // text in the log once it is at work; empty: at once
	disk *disk  // of what it stores; nil where none can be had, or it stores nothing

	clock *clock // nil: the machine's
	links links  // wires of its own; none: it uses those of all

	mu      sync.Mutex
	cmd     *exec.Cmd // nil while down
	holds   int       // faults that want it down
	told    bool      // the present run is told to end
	asked   bool      // … by SIGTERM alone, which it promises to obey
	excuses int       // faults by which it may end by itself
	changed chan struct{}
	mishaps []string // uninvited ends
	ends    []time.Time
}

func newProcess(dir, name, bin, up string, env []string, args ...string) *process {
	return &process{
		name: name, bin: bin, args: args, env: env, up: up,
		log: filepath.Join(dir, name+".log"), changed: make(chan struct{}),
	}
}

// run keeps the process running until ctx ends, and then kills it.
func (p *process) run(ctx context.Context) error {
	// The signal by which a process dies with this one is tied to the thread
	// that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer context.AfterFunc(ctx, func() { p.signal(syscall.SIGKILL) })()
	for ctx.Err() == nil {
		if !p.awaitRelease(ctx) {
			break
		}
		if err := p.once(ctx); err != nil {
			return fmt.Errorf("start %s: %w", p.name, err)
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// awaitRelease returns true when nothing holds the process down.
func (p *process) awaitRelease(ctx context.Context) bool {
	for {
		p.mu.Lock()
		free, changed := p.holds == 0, p.changed
		p.mu.Unlock()
		if free {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// once runs the process until it ends.
func (p *process) once(ctx context.Context) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	begin, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.bin, p.args...)
	cmd.Env, cmd.Stderr, cmd.Dir = append(cleanEnv(), p.env...), log, filepath.Dir(p.log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if err := p.clock.start(cmd); err != nil {
		return err
	}
	defer p.clock.ended()
	p.mu.Lock()
	p.cmd, p.told, p.asked = cmd, p.holds > 0, false
	if p.told || ctx.Err() != nil { // held while it was being started
		p.told = true
		_ = cmd.Process.Kill()
	}
	p.mu.Unlock()
	ended := cmd.Wait()
	p.note(ended, begin)
	return nil
}

// note keeps an end that nobody asked for. One before the process was at work
// is none: it may lack what it needs, and is started again.
func (p *process) note(ended error, begin int64) {
	text, _ := os.ReadFile(p.log) // an unreadable log tells nothing
	text = text[min(begin, int64(len(text))):]
	crashed := bytes.Contains(text, []byte("panic: ")) || bytes.Contains(text, []byte("fatal error: "))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch atWork := bytes.Contains(text, []byte(p.up)); {
	case crashed, !p.told && atWork && p.excuses == 0:
		p.mishaps = append(p.mishaps, fmt.Sprintf("%s ended by itself (%v):\n%s", p.name, ended,
			tail(string(text), 12)))
	case p.asked && atWork && ended != nil:
		p.mishaps = append(p.mishaps, fmt.Sprintf("%s ended with %v after SIGTERM:\n%s", p.name, ended,
			tail(string(text), 12)))
	}
	p.cmd = nil
	p.ends = append(p.ends, time.Now())
	p.announce()
}

// excuse has it no mishap that the process ends by itself, until the end.
func (p *process) excuse() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.excuses++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.excuses--
	}
}

// announce wakes who waits for a change; it is called under the lock.
func (p *process) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// signal sends a signal that is meant to end the process, if it runs.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.asked = s == syscall.SIGTERM && !p.told
		p.told = true
		_ = p.cmd.Process.Signal(s) // an error: it has ended
	}
}

// hold ends the process and keeps it down until it is released as often. It
// returns when the process has ended, killing it after the grace.
func (p *process) hold(s syscall.Signal, grace time.Duration) (inTime bool) {
	p.mu.Lock()
	p.holds++
	p.mu.Unlock()
	p.signal(s)
	limit, inTime := time.After(grace), true
	for {
		p.mu.Lock()
		down, changed := p.cmd == nil, p.changed
		p.mu.Unlock()
		if down {
			return inTime
		}
		select {
		case <-changed:
		case <-limit:
			inTime = false
			p.signal(syscall.SIGKILL)
		}
	}
}

func (p *process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds--
	p.announce()
}

// pause stops the process for as long as it takes, as a machine that swaps or
// migrates does. It returns the function that lets it go on.
func (p *process) pause() (resume func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return func() error { return nil }
	}
	process := p.cmd.Process
	_ = process.Signal(syscall.SIGSTOP) // an error: it has ended
	return func() error {
		_ = process.Signal(syscall.SIGCONT)
		return nil
	}
}

// pid is 0 while the process is down.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// http is where it serves HTTP, if it does.
func (p *process) http() string {
	for _, v := range p.env {
		if addr, ok := strings.CutPrefix(v, "MILLRACE_HTTP_ADDR="); ok {
			return addr
		}
	}
	return ""
}

func (p *process) misfortunes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mishaps
}

// cleanEnv leaves out settings meant for the program of whoever runs this.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MILLRACE_") && !strings.HasPrefix(v, "AUTH_") ||
			strings.HasPrefix(v, "MILLRACE_ENGINES=") {
			env = append(env, v)
		}
	}
	return env
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
