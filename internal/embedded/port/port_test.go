package port

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestFreeAfterTry has processes forked all the while.
func TestFreeAfterTry(t *testing.T) {
	// With the first one, the os package finds out how to fork, and takes no
	// lock for it.
	_ = exec.Command("true").Run()
	done := make(chan struct{})
	var forks sync.WaitGroup
	for range 2 {
		forks.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run() // a system without it forks less
				}
			}
		})
	}
	defer forks.Wait()
	defer close(done)
	for range 300 {
		addr, err := Try("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", addr.String())
		if err != nil {
			t.Fatalf("not free after it was tried: %v", err)
		}
		l.Close()
	}
}

func TestTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Try(l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a taken address: %v", err)
	}
}

// TestReserve has processes reserve at once: no address is given twice, neither
// in one process nor in two.
func TestReserve(t *testing.T) {
	const each = 300
	if os.Getenv("RESERVE") != "" {
		all, err := Reserve(each)
		fmt.Println(strings.Join(all, "\n"), "\n", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // keeps them until all have theirs
		return
	}
	given := map[string]bool{}
	for range 4 {
		other := exec.Command(os.Args[0], "-test.run=^TestReserve$")
		other.Env = append(os.Environ(), "RESERVE=1")
		stdin, err := other.StdinPipe()
		must(t, err)
		stdout, err := other.StdoutPipe()
		must(t, err)
		must(t, other.Start())
		defer func() { stdin.Close(); _ = other.Wait() }()
		lines := bufio.NewScanner(stdout)
		for range each {
			if !lines.Scan() || given[lines.Text()] || !strings.HasPrefix(lines.Text(), "127.0.0.1:") {
				t.Fatalf("%q is given after %d", lines.Text(), len(given))
			}
			given[lines.Text()] = true
		}
	}
	own, err := Reserve(each)
	must(t, err)
	for _, address := range own {
		if given[address] {
			t.Errorf("%s is given twice", address)
		}
		given[address] = true
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
