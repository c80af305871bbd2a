package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// told is what a command prints, to wait on.
type told struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *told) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *told) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

func emitLine(stage string, n int) string {
	return fmt.Sprintf(`{"article_url":"https://example.com/%d","source_name":"s","stage":%q,"occurred_at":%q,`+
		`"service_name":"c"}`+"\n",
		n, stage, time.Now().UTC().Format(time.RFC3339))
}

// TestEmitStatus: the stages are the installation's, whatever the command's own
// setting says, and the exit status tells of rejected lines.
func TestEmitStatus(t *testing.T) {
	stages, err := event.ParseStages("mined,smelted")
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, stream.Config{Stages: stages})
	t.Setenv("MILLRACE_NATS_URL", s.URL())
	for _, c := range []struct {
		setting, in string
		status      int
		out, errOut string
	}{
		{"", emitLine("mined", 1) + emitLine("smelted", 2), 0, "accepted=2 duplicates=0 rejected=0", ""},
		{
			"", emitLine("mined", 3) + emitLine("crawled", 4), 3, "accepted=1 duplicates=0 rejected=1",
			"line 2: stage: must be one of mined, smelted (stage_unknown)\nmillrace: 1 of 2 lines were rejected\n",
		},
		{"crawled,mined", emitLine("crawled", 5), 3, "rejected=1", `the installation has other stages than ` +
			`MILLRACE_STAGES; going by the installation's","installation":"mined,smelted"`},
	} {
		if t.Setenv("MILLRACE_STAGES", event.DefaultStages); c.setting != "" {
			t.Setenv("MILLRACE_STAGES", c.setting)
		}
		var out, errOut bytes.Buffer
		if status := run([]string{"emit", "-"}, strings.NewReader(c.in), &out, &errOut, 0); status != c.status ||
			!strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.errOut) ||
			(c.errOut == "") != (errOut.Len() == 0) {
			t.Errorf("%s: status %d\n%s%s", c.in, status, out.String(), errOut.String())
		}
	}
}

// TestEmitAway: a NATS that is away is named at once, without its password, and
// waited for within the bound; one that comes is used.
func TestEmitAway(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	shown := strings.Replace(s.URL(), ":test@", ":xxxxx@", 1)
	if shown == s.URL() {
		t.Fatal("the address has no password")
	}
	t.Setenv("MILLRACE_NATS_URL", s.URL())
	s.Stop()
	var out, errOut bytes.Buffer
	status := run([]string{"emit", "--wait=300ms", "-"}, strings.NewReader(emitLine("crawled", 1)), &out, &errOut, 0)
	for _, want := range []string{
		`"msg":"NATS does not answer; waiting for it","address":"` + shown + `","at_most":"300ms","error":"`,
		"millrace: NATS at " + shown + " has not answered for 300ms: start it, or name another by MILLRACE_NATS_URL",
	} {
		if status != 1 || !strings.Contains(errOut.String(), want) || strings.Contains(errOut.String(), ":test@") {
			t.Errorf("status %d, want %s in:\n%s", status, want, errOut.String())
		}
	}
	ended, late := make(chan int, 1), &told{}
	go func() {
		ended <- run([]string{"emit", "-"}, strings.NewReader(emitLine("crawled", 1)), io.Discard, late, 0)
	}()
	until(t, "word of the server that is away", func() bool {
		return strings.Contains(late.String(),
			`"at_most":"1m0s"`)
	})
	s.Start()
	if status := <-ended; status != 0 {
		t.Errorf("status %d:\n%s", status, late)
	}
}

// TestEmitInterrupted: Ctrl-C says what to do next, both while the command waits
// for NATS and while it publishes; its status is the shell's for that signal.
func TestEmitInterrupted(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	t.Setenv("MILLRACE_NATS_URL", s.URL())
	in, feed := io.Pipe()
	defer feed.Close()
	interrupt := func(signal syscall.Signal, ready string) {
		t.Helper()
		out, errOut, ended := &told{}, &told{}, make(chan int, 1)
		go func() { ended <- run([]string{"emit", "-"}, in, out, errOut, 0) }()
		if ready == "" {
			_, _ = io.WriteString(feed, emitLine("crawled", 1))
			until(t, "event", func() bool { return len(s.IDs()) == 1 })
		}
		until(t, ready, func() bool { return strings.Contains(errOut.String(), ready) })
		if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
			t.Fatal(err)
		}
		status := <-ended
		if want := "millrace: interrupted; run it again, each event counts once\n"; status != 128+int(signal) ||
			!strings.HasSuffix(errOut.String(), want) {
			t.Errorf("status %d: %s", status, errOut)
		}
		// What is on the stream may not have been acknowledged before the signal.
		if report := out.String(); strings.Contains(report, "accepted=") != (ready == "") {
			t.Errorf("the report: %s", report)
		}
	}
	interrupt(syscall.SIGINT, "")
	s.Stop()
	interrupt(syscall.SIGINT, "NATS does not answer")
	interrupt(syscall.SIGTERM, "NATS does not answer")
}
