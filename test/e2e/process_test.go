package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a run of the program.
type process struct {
	cmd  *exec.Cmd
	log  *output // standard error
	out  *output // standard output
	done chan struct{}
	err  error // of Wait, once done is closed
}

// launch starts the program with the settings in env and none of the
// environment's own. It is killed with all its children when the test ends.
func launch(t testing.TB, env []string, in io.Reader, args ...string) *process {
	t.Helper()
	return launchProgram(t, binary, env, in, args...)
}

// launchProgram starts another program likewise.
func launchProgram(t testing.TB, path string, env []string, in io.Reader, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), log: newOutput(), out: newOutput(), done: make(chan struct{})}
	p.cmd.Env = append(cleanEnv(), env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, p.out, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr)
	// What a child of the program still holds open must not keep Wait.
	p.cmd.WaitDelay = 5 * time.Second
	if err := startOnLastingThread(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(p.kill)
	return p
}

// cleanEnv leaves out settings of the program that runs the tests.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MILLRACE_") && !strings.HasPrefix(v, "AUTH_") && !strings.HasPrefix(v, "OTEL_") ||
			strings.HasPrefix(v, "MILLRACE_ENGINES=") {
			env = append(env, v)
		}
	}
	return env
}

var starter = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		// The death signal is sent when the thread that forked ends, not the
		// process: this one never ends before.
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func startOnLastingThread(cmd *exec.Cmd) error {
	result := make(chan error)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

// kill ends the process and its group as kill -9 does. It may have ended before.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// wait returns the exit status.
func (p *process) wait(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatalf("%s still runs after %s; its log:\n%s", p.cmd, limit, p.log)
	}
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		return 0
	case errors.As(p.err, &exit):
		return exit.ExitCode()
	}
	t.Fatalf("%s: %v", p.cmd, p.err)
	return -1
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// output keeps what a process writes.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	waits map[string]chan struct{} // by a text that is to come
}

func newOutput() *output { return &output{} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.buf.Write(p)
	for text, has := range o.waits {
		if bytes.Contains(o.buf.Bytes(), []byte(text)) {
			close(has)
			delete(o.waits, text)
		}
	}
	return n, err
}

// has returns a channel that is closed as soon as a text has come. It is called once for each text.
func (o *output) has(text string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	has := make(chan struct{})
	if bytes.Contains(o.buf.Bytes(), []byte(text)) {
		close(has)
		return has
	}
	if o.waits == nil {
		o.waits = map[string]chan struct{}{}
	}
	o.waits[text] = has
	return has
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
