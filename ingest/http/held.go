package ingesthttp

import (
	"errors"
	"io"
	"sync/atomic"
)

// maxHeld bounds what the bodies of all requests under way take, in bytes. What
// is made of them takes some times as much.
const maxHeld = 128 << 20

// smallBody is what a body may always take: requests of few events go on beside
// those that take all that there is.
const smallBody = 64 << 10

var errHeld = errors.New("the bodies of requests under way take as much as they may")

// held counts what bodies take.
type held struct{ bytes atomic.Int64 }

func (h *held) part() *part { return &part{all: h} }

// part is what one body takes.
type part struct {
	all  *held
	size int64
}

// grow takes n bytes more, unless there are too many.
func (p *part) grow(n int64) bool {
	p.size += n
	counted := min(n, max(0, p.size-smallBody))
	return p.all.bytes.Add(counted) <= maxHeld || counted == 0
}

// free gives back all that was taken.
func (p *part) free() {
	p.all.bytes.Add(-max(0, p.size-smallBody))
	p.size = 0
}

// measured takes a part as bytes arrive: what a caller merely claims to send
// takes nothing.
type measured struct {
	io.Reader
	part *part
}

func (m measured) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	if !m.part.grow(int64(n)) {
		return n, errHeld
	}
	return n, err
}
