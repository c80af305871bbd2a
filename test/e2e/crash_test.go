package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// crashes is how often TestKilled kills the server.
const crashes = 5

// seed is what decides where servers are killed: MILLRACE_TEST_SEED, or the
// clock.
func seed(t testing.TB) uint64 {
	n, err := strconv.ParseUint(os.Getenv("MILLRACE_TEST_SEED"), 10, 64)
	if err != nil {
		n = uint64(time.Now().UnixNano())
	}
	t.Logf("MILLRACE_TEST_SEED=%d repeats these random choices", n)
	return n
}

// TestKilled holds the promise that kill -9 of the tree, wherever it strikes,
// neither loses nor doubles anything, that children die with their parent, and
// that an emit under way carries on with the restarted server.
func TestKilled(t *testing.T) {
	t.Parallel()
	n := seed(t)
	random := rand.New(rand.NewPCG(n, 2))
	s := up(t)
	c := recent(n, 6000)
	parts := pieces(c.lines(), crashes)
	var lines []byte // not known to be there
	for round := range crashes {
		lines = append(lines, parts[round]...)
		feed := newFeed(lines)
		emit := feed.into(s)
		feed.allow(random.IntN(len(lines)))
		feed.waitRead(t)
		if random.IntN(2) == 0 { // let the projector get into it
			before := get[funnel](s, "/funnel", "period=24h").Stream.FoldedSeq
			poll(t, waitLimit, "the projector to fold", func() bool {
				f := get[funnel](s, "/funnel", "period=24h").Stream
				return f.FoldedSeq > before || f.Behind == 0
			})
		}
		s.killParent()
		if random.IntN(2) == 0 {
			s.begin()
			poll(t, startLimit, "the server to begin", func() bool {
				return strings.Contains(s.log.String(), "embedded NATS serves")
			})
			s.killParent() // in the middle of its start
		}
		s.restart()
		if round%2 == 1 {
			emit.kill() // what it has sent is sent again with the next part
			feed.allow(len(lines))
			continue
		}
		feed.allow(len(lines))
		if status := emit.wait(t, waitLimit); status != 0 {
			t.Fatalf("emit: exit status %d after the server came back:\n%s", status, emit.log)
		}
		lines = nil // acknowledged: it is not sent again
	}
	mustMatch(t, s, c)
	s.emit(c.lines())
	mustMatch(t, s, c)
}

// pieces cuts lines into so many parts of about the same size.
func pieces(lines []byte, n int) (parts [][]byte) {
	for ; n > 1; n-- {
		end := len(lines) / n
		end += bytes.IndexByte(lines[end:], '\n') + 1
		parts, lines = append(parts, lines[:end]), lines[end:]
	}
	return append(parts, lines)
}

// TestTerminated holds the promise that SIGTERM under load ends with exit
// status 0, and loses nothing.
func TestTerminated(t *testing.T) {
	t.Parallel()
	n := seed(t)
	random := rand.New(rand.NewPCG(n, 3))
	s := up(t)
	c := recent(n, 4000)
	lines := c.lines()
	feed := newFeed(lines)
	emit := feed.into(s)
	feed.allow(random.IntN(len(lines)))
	feed.waitRead(t)
	children := descendants(s.cmd.Process.Pid)
	s.stop()
	if left := alive(children); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	s.restart()
	feed.allow(len(lines))
	if status := emit.wait(t, waitLimit); status != 0 {
		t.Fatalf("emit: exit status %d after the server came back:\n%s", status, emit.log)
	}
	mustMatch(t, s, c)
}

// TestStoppedWhileStarting holds the promise that SIGTERM is obeyed at any time.
func TestStoppedWhileStarting(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := prepare(t)
	s.begin()
	poll(t, startLimit, "the server to begin", func() bool {
		return strings.Contains(s.log.String(), "embedded NATS serves")
	})
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(t, waitLimit); status != 0 {
		t.Errorf("exit status %d:\n%s", status, s.log)
	}
	s.restart()
}

// feed is an input that goes on only as far as it is allowed to.
type feed struct {
	reader  *os.File
	allowed chan int
	read    chan struct{} // a value whenever all that was allowed is written
}

func newFeed(data []byte) *feed {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	f := &feed{reader: r, allowed: make(chan int, 4), read: make(chan struct{}, 4)}
	go func() {
		defer w.Close()
		in := bytes.NewReader(data)
		for in.Len() > 0 {
			upTo := <-f.allowed
			// An error is a reader that has been killed.
			_, err := io.CopyN(w, in, max(0, int64(upTo-(len(data)-in.Len()))))
			f.read <- struct{}{}
			if err != nil {
				return
			}
		}
	}()
	return f
}

// into starts an emit that reads the feed.
func (f *feed) into(s *server) *process {
	emit := s.beginEmit(f.reader)
	f.reader.Close() // emit has its own; when that closes, too, writing fails
	return emit
}

// allow lets the input go on to this many bytes in all.
func (f *feed) allow(bytes int) { f.allowed <- bytes }

// waitRead waits until what is allowed has gone into the pipe.
func (f *feed) waitRead(t testing.TB) {
	t.Helper()
	select {
	case <-f.read:
	case <-time.After(waitLimit):
		t.Fatal("the input is not read")
	}
}
