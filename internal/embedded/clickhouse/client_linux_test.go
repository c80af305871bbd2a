package clickhouse

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a connection's server side and its client.
func pair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := listen("native protocol", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, client
}

// TestKeepAlive: a client that is gone without a word is noticed within 30 s.
func TestKeepAlive(t *testing.T) {
	server, _ := pair(t)
	raw, err := server.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	read := func(option int) (value int) {
		if err := raw.Control(func(fd uintptr) {
			value,
				err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
		}); err != nil {
			t.Fatal(err)
		}
		return value
	}
	if after := read(unix.TCP_KEEPIDLE) + read(unix.TCP_KEEPINTVL)*read(unix.TCP_KEEPCNT); after < 1 || after > 30 {
		t.Errorf("after %d s", after)
	}
}

// TestHungUp: a client's end shows behind what it has sent, and not before.
func TestHungUp(t *testing.T) {
	server, client := pair(t)
	if hungUp(server) {
		t.Error("at first")
	}
	if _, err := client.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if hungUp(server) {
		t.Error("after bytes")
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !hungUp(server); {
		if time.Now().After(deadline) {
			t.Fatal("not after the end")
		}
	}
}

// TestLinger: a client that still sends can read the answer.
func TestLinger(t *testing.T) {
	server, client := pair(t)
	if _, err := server.Write([]byte("why")); err != nil {
		t.Fatal(err)
	}
	go func() {
		linger(server)
		server.Close()
	}()
	if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(make([]byte, 8<<20)); err != nil {
		t.Error("while sending:", err)
	}
	answer := make([]byte, 3)
	if _, err := client.Read(answer); err != nil || string(answer) != "why" {
		t.Errorf("%q, %v", answer, err)
	}
}
