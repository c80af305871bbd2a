package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/confine"
)

// Config describes a child process.
type Config struct {
	Name string   // what logs and errors call it; required
	Path string   // the program; required
	Args []string // without the program's name
	Env  []string // default: the environment of this process
	Dir  string   // working directory; default: that of this process
	In   string   // what it reads from standard input; default: nothing

	// Attr adds to how the process is started: credentials, namespaces. Process
	// group and death signal are set by this package.
	Attr syscall.SysProcAttr

	// Confine starts the program under these rules: see package confine, whose
	// RunStage the main function of this program has to call first.
	Confine *confine.Rules
	// Confines says that the program is one of ours which confines itself, and
	// reports that.
	Confines bool

	// DeathSignal is what the child gets when this process dies; default SIGKILL.
	// Systems other than Linux always use SIGKILL.
	DeathSignal syscall.Signal

	// Probe returns nil once the child serves. It is tried every 10 ms; its
	// context ends when the child does. Default: serving as soon as started.
	Probe func(context.Context) error
	// ProbeTimeout is how long Probe may go on failing; default 10 min. A child
	// that is stopped while it recovers from a crash begins anew with that, and
	// one that ends is noticed at once. After a twentieth of it the log has why
	// the child does not serve.
	ProbeTimeout time.Duration

	// Stop lists the signals that ask the child to end, each with the time that
	// it is given before the next; SIGKILL to its process group is always the
	// last. Default: SIGTERM, 10 s.
	Stop []Step

	// Parse turns a line of the child's output into a log message; an empty
	// message is left out. Default: the line itself, at level info.
	Parse func(line string) (slog.Level, string)
}

// Step is one attempt to end a child.
type Step struct {
	Signal syscall.Signal
	Grace  time.Duration
}

// Child is one run of a child process. Its methods may be called from any
// goroutine, Run only once.
type Child struct {
	config Config
	log    *slog.Logger
	ready  chan struct{}
	ran    atomic.Bool
	pid    atomic.Int64
	report atomic.Pointer[confine.Report]
}

// ExitError is a child that has ended without being asked to.
type ExitError struct {
	Name string
	Err  error    // how it ended; nil for exit status 0
	Tail []string // the last lines of its standard error
}

func (e *ExitError) Error() string {
	how := "exit status 0"
	if e.Err != nil {
		how = e.Err.Error()
	}
	return e.Name + " ended by itself: " + how + quoteTail(e.Tail)
}

func (e *ExitError) Unwrap() error { return e.Err }

// New checks the configuration and starts nothing.
func New(config Config, log *slog.Logger) (*Child, error) {
	if config.Name == "" || config.Path == "" {
		return nil, errors.New("child process: a name and a program are required")
	}
	if config.ProbeTimeout == 0 {
		config.ProbeTimeout = 10 * time.Minute
	}
	if config.DeathSignal == 0 {
		config.DeathSignal = syscall.SIGKILL
	}
	if config.Stop == nil {
		config.Stop = []Step{{Signal: syscall.SIGTERM, Grace: 10 * time.Second}}
	}
	return &Child{config: config, log: log.With("child", config.Name), ready: make(chan struct{})}, nil
}

// Ready is closed when the probe has succeeded; never if it does not.
func (c *Child) Ready() <-chan struct{} { return c.ready }

// PID is the child's process id, 0 before it has started.
func (c *Child) PID() int { return int(c.pid.Load()) }

// Confinement is what confines the child, known once it is ready; nil for one
// that is not confined.
func (c *Child) Confinement() *confine.Report { return c.report.Load() }

// Run starts the child and returns when it has ended: nil when that was because
// ctx ended, otherwise why; an [*ExitError] when it ended by itself.
func (c *Child) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return fmt.Errorf("%s was run before", c.config.Name)
	}
	if ctx.Err() != nil {
		return nil
	}
	p, err := start(&c.config, c.log)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	c.pid.Store(int64(p.pid))
	if err := c.await(ctx, p); err != nil {
		p.stop(c.config.Stop)
		return err
	}
	select {
	case <-ctx.Done():
		p.stop(c.config.Stop)
		return nil
	case <-p.done:
		return p.exitError()
	}
}

// await waits until the child serves. The end of ctx is not an error.
func (c *Child) await(ctx context.Context, p *process) error {
	if c.config.Probe == nil {
		return c.begin(p)
	}
	probing, cancel := context.WithTimeout(ctx, c.config.ProbeTimeout)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(c.config.ProbeTimeout / 20)
	defer late.Stop()
	reason := errors.New("its probe did not return")
	for {
		err := c.config.Probe(probing)
		if err == nil {
			return c.begin(p)
		}
		if probing.Err() == nil {
			reason = err
		}
		select {
		case <-again.C:
		case <-late.C:
			c.log.Warn("does not serve yet", "error", reason)
		case <-probing.Done():
			if ctx.Err() != nil {
				return nil
			}
			if p.ended() {
				return p.exitError()
			}
			return fmt.Errorf("%s does not serve after %v: %w%s", c.config.Name, c.config.ProbeTimeout, reason,
				quoteTail(p.tail.lines()))
		}
	}
}

// begin says that the child serves.
func (c *Child) begin(p *process) error {
	report, err := p.confinement()
	if err != nil {
		return err
	}
	c.report.Store(report)
	close(c.ready)
	return nil
}

// Exec runs a program to its end and returns what it wrote to standard output.
// Only Name, Path, Args, Env, Dir, In, Attr, Confine and DeathSignal count. When ctx ends,
// the program is killed.
func Exec(ctx context.Context, config Config) (string, error) {
	config.DeathSignal = syscall.SIGKILL
	var out capture
	config.Parse = func(string) (slog.Level, string) { return 0, "" }
	p, err := startWith(&config, slog.New(slog.DiscardHandler), &out)
	if err != nil {
		return "", fmt.Errorf("start %s: %w", config.Name, err)
	}
	select {
	case <-ctx.Done():
		p.stop(nil)
		return "", fmt.Errorf("%s: %w", config.Name, ctx.Err())
	case <-p.done:
	}
	if p.err != nil {
		return "", fmt.Errorf("%s: %w%s", config.Name, p.err, quoteTail(p.tail.lines()))
	}
	return out.String(), nil
}
