package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a process under measurement that logs JSON lines.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // once done is closed

	mu      sync.Mutex
	told    map[string]time.Time // when each message was first logged
	last    []string             // of the log, for errors
	changed chan struct{}
}

// launch starts a process of the program to measure.
func launch(bin string, args, env []string) (*program, error) {
	p := &program{done: make(chan struct{}), told: map[string]time.Time{}, changed: make(chan struct{}, 1)}
	p.cmd = exec.Command(bin, args...)
	p.cmd.Env = append(append(os.Environ(), "MILLRACE_CLICKHOUSE_PASSWORD="+chPassword), env...)
	// Of a group of its own, so that an interrupt reaches it through us once.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	go func() {
		defer close(p.done)
		p.read(log)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) read(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.note(lines.Text())
	}
	_, _ = io.Copy(io.Discard, log) // after a line beyond the buffer
}

func (p *program) note(line string) {
	var entry struct {
		Time time.Time
		Msg  string
	}
	known := json.Unmarshal([]byte(line), &entry) == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last = append(p.last, line); len(p.last) > 10 {
		p.last = p.last[1:]
	}
	if _, again := p.told[entry.Msg]; known && !again {
		p.told[entry.Msg] = entry.Time
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// await waits until a message has been logged and returns its time.
func (p *program) await(ctx context.Context, msg string) (time.Time, error) {
	for {
		p.mu.Lock()
		at, ok := p.told[msg]
		p.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-p.changed:
		case <-p.done:
			return at, p.failure()
		case <-ctx.Done():
			return at, fmt.Errorf("waiting for %q: %w", msg, ctx.Err())
		}
	}
}

func (p *program) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%s ended (%v):\n%s", strings.Join(p.cmd.Args, " "), p.err, strings.Join(p.last, "\n"))
}

// stop asks the process to end, and kills its group if it does not.
func (p *program) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error: it has ended
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.done
		return errors.Join(errors.New("does not stop"), p.failure())
	}
	if p.err != nil {
		return p.failure()
	}
	return nil
}
