package port

import (
	"errors"
	"net"
	"os/exec"
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
