package child

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// pipeGrace is how long the readers of a child's output go on after its end:
// a process that it has left behind may hold the pipes open for ever.
const pipeGrace = 2 * time.Second

// process is a started child. err may be read once done is closed.
type process struct {
	pid  int
	done <-chan struct{}
	life context.Context // over when done is closed
	err  error
	tail *tail
	name string
	log  *slog.Logger

	confined *confinement // nil: not confined
}

func start(config *Config, log *slog.Logger) (*process, error) {
	return startWith(config, log, nil)
}

// startWith starts the child; a given stdout takes its standard output in place
// of the log.
func startWith(config *Config, log *slog.Logger, stdout io.Writer) (*process, error) {
	cmd, confined, err := command(config)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(noContext)
	p := &process{confined: confined, done: life.Done(), life: life, tail: &tail{}, name: config.Name, log: log}
	cmd.WaitDelay = pipeGrace
	if config.In != "" {
		cmd.Stdin = strings.NewReader(config.In)
	}
	out := &lineWriter{emit: p.logLine(config)}
	errs := &lineWriter{emit: p.logLine(config), tail: p.tail}
	cmd.Stdout, cmd.Stderr = out, errs
	if stdout != nil {
		cmd.Stdout = stdout
	}
	attr := config.Attr
	attr.Setpgid = true
	bind(&attr, config.DeathSignal)
	cmd.SysProcAttr = &attr

	started := make(chan error)
	go func() {
		// The thread that forks must live as long as the child: see the package
		// comment.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer end()
		release, err := launch(cmd)
		p.confined.started()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		defer p.confined.close()
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		if errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // it ended with status 0, something it left behind did not
		}
		p.killGroup()
		release()
		out.flush()
		errs.flush()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) logLine(config *Config) func(string) {
	return func(line string) {
		level, message := slog.LevelInfo, line
		if config.Parse != nil {
			level, message = config.Parse(line)
		}
		if message != "" {
			p.log.Log(noContext, level, message)
		}
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) exitError() error {
	return &ExitError{Name: p.name, Err: p.err, Tail: p.tail.lines()}
}

// stop asks the child to end, step by step, kills it at last, and returns when
// it has ended.
func (p *process) stop(steps []Step) {
	for _, s := range steps {
		if p.ended() {
			return
		}
		// An error means that it has just ended, which done will tell.
		_ = syscall.Kill(p.pid, s.Signal)
		grace := time.NewTimer(s.Grace)
		select {
		case <-p.done:
			grace.Stop()
			return
		case <-grace.C:
			p.log.Warn("child process does not end", "signal", s.Signal.String(), "after", s.Grace)
		}
	}
	p.killGroup()
	<-p.done
}

// killGroup ends the child and whatever it has started. A group that is gone
// already is what is wanted.
func (p *process) killGroup() { _ = syscall.Kill(-p.pid, syscall.SIGKILL) }
