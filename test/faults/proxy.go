package main

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// proxy is the wire between the roles and a server.
type proxy struct {
	listen, target string

	mu    sync.Mutex
	conns map[*net.TCPConn]struct{}
	cuts  int // faults that want no connection
	deafs int // faults that want no answer to come back
}

func newProxy(listen, target string) *proxy {
	return &proxy{listen: listen, target: target, conns: map[*net.TCPConn]struct{}{}}
}

// run forwards connections until ctx ends.
func (p *proxy) run(ctx context.Context) error {
	l, err := net.Listen("tcp", p.listen)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", p.target, err)
	}
	defer context.AfterFunc(ctx, func() { l.Close(); p.reset() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		near, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept for %s: %w", p.target, err)
		}
		wg.Go(func() { p.join(near.(*net.TCPConn)) })
	}
}

// join forwards one connection until either side ends it.
func (p *proxy) join(near *net.TCPConn) {
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		near.Close()
		return
	}
	far := conn.(*net.TCPConn)
	if !p.admit(near, far) {
		near.Close()
		far.Close()
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(far, near, func() bool { return false }) })
	wg.Go(func() { p.copy(near, far, p.deaf) })
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, near)
	delete(p.conns, far)
}

func (p *proxy) admit(conns ...*net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts > 0 {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

// copy forwards one direction, without what is to be swallowed.
func (p *proxy) copy(to, from *net.TCPConn, swallow func() bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !swallow() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) deaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deafs > 0
}

// reset ends all connections at once, wherever they are.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.SetLinger(0) // what is under way is dropped; an error: it is closed
		c.Close()
	}
}

// cut ends all connections and refuses new ones until the end.
func (p *proxy) cut() (end func()) {
	p.count(1, 0)
	p.reset()
	return func() { p.count(-1, 0) }
}

// mute lets what is asked through, but no answer back, until the end; all
// connections are lost then. What was asked has been done, and nobody knows.
func (p *proxy) mute() (end func()) {
	p.count(0, 1)
	return func() {
		p.reset()
		p.count(0, -1)
	}
}

func (p *proxy) count(cuts, deafs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts += cuts
	p.deafs += deafs
}
