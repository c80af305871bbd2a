package native

import (
	"errors"
	"fmt"
)

// ErrRevision is a client that is too old for this server.
var ErrRevision = errors.New("client revision is too old")

// ErrHTTP is a client that speaks HTTP.
var ErrHTTP = errors.New("this looks like HTTP, which has a port of its own")

// Hello opens a connection.
type Hello struct {
	Client         string
	Revision       uint64
	Database       string
	User, Password string
}

// ReadHello reads a client's first packet, its code included.
func (r *Reader) ReadHello() (h Hello, err error) {
	code, err := r.Packet()
	if err != nil {
		return h, fmt.Errorf("read hello: %w", err)
	}
	switch code {
	case ClientHello:
		return r.hello()
	case 'G', 'H', 'P', 'D', 'O': // GET, HEAD, POST or PUT, DELETE, OPTIONS
		return h, ErrHTTP
	}
	return h, fmt.Errorf("read hello: %w: packet %d", ErrProtocol, code)
}

func (r *Reader) hello() (h Hello, err error) {
	if h.Client, err = r.str("client name", maxName); err != nil {
		return h, err
	}
	for _, v := range []struct {
		what string
		to   *uint64
	}{{"major version", new(uint64)}, {"minor version", new(uint64)}, {"revision", &h.Revision}} {
		if *v.to, err = r.uvarint(v.what, 1<<32); err != nil {
			return h, err
		}
	}
	for _, v := range []struct {
		what string
		to   *string
	}{{"database", &h.Database}, {"user", &h.User}, {"password", &h.Password}} {
		if *v.to, err = r.str(v.what, maxName); err != nil {
			return h, err
		}
	}
	if h.Revision < OldestRevision {
		return h, fmt.Errorf("%w: %d, at least %d is needed", ErrRevision, h.Revision, OldestRevision)
	}
	r.revision = min(h.Revision, Revision)
	return h, nil
}

// ReadAddendum reads what a client sends once it has the server's hello: a quota
// key, which nothing here depends on.
func (r *Reader) ReadAddendum() error {
	if r.revision < revisionAddendum {
		return nil
	}
	return r.strings("quota key")
}
