package references

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jlaffaye/ftp"

	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/internal/objects"
)

const (
	ftpPort     = "21"
	dialTimeout = 10 * time.Second
)

func (o *Opener) ftp(ctx context.Context, u *url.URL) (*File, error) {
	if len(o.cfg.FTPHosts) == 0 {
		return nil, off("MILLRACE_UPLOADS_FTP_HOSTS")
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = ftpPort
	}
	at := net.JoinHostPort(host, port)
	if !slices.ContainsFunc(o.cfg.FTPHosts, func(allowed string) bool {
		allowed = strings.ToLower(allowed)
		return allowed == at || port == ftpPort && allowed == host
	}) {
		return nil, &Error{"host", "must name a host that the server allows: an operator adds it to MILLRACE_UPLOADS_FTP_HOSTS"}
	}
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" || strings.HasSuffix(name, "/") || strings.ContainsAny(u.Path, "\r\n\x00") {
		return nil, &Error{"path", "must name a file, without control characters"}
	}
	return openFTP(ctx, o.cfg.Guard, at, u.User, name)
}

// openFTP begins to read a file of a server.
func openFTP(ctx context.Context, guard netguard.Guard, at string, user *url.Userinfo, name string) (*File, error) {
	c, err := dialFTP(ctx, guard, at, user)
	if err != nil {
		return nil, err
	}
	f := &ftpFile{ftpConn: c, path: name}
	if err := f.open(); err != nil {
		_ = f.Close()
		return nil, told(err)
	}
	return &File{f, path.Base(name), f.before.size}, nil
}

// ftpConn is a session with a server. All connections end with its context.
type ftpConn struct {
	*ftp.ServerConn
	stop    func() bool
	replies *replies
	listing int // bytes that may still be listed; 0: a file is read

	mu    sync.Mutex
	conns []net.Conn
}

// dialFTP opens a session. Data connections go to the address of the first one, whatever the server says.
func dialFTP(ctx context.Context, guard netguard.Guard, at string, user *url.Userinfo) (*ftpConn, error) {
	name, password, err := login(user)
	if err != nil {
		return nil, err
	}
	c, dialer, address := &ftpConn{}, guard.Dialer(dialTimeout, nil), ""
	dial := func(network, to string) (net.Conn, error) {
		if address != "" {
			_, port, err := net.SplitHostPort(to)
			if err != nil {
				return nil, err
			}
			to = net.JoinHostPort(address, port)
		}
		conn, err := dialer.DialContext(ctx, network, to)
		if err != nil {
			return nil, err
		}
		if address, _, err = net.SplitHostPort(conn.RemoteAddr().String()); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn)
		if c.replies == nil {
			c.replies = &replies{Conn: conn}
			c.replies.next()
			return c.replies, nil
		}
		return &transfer{conn, c}, nil
	}
	c.stop = context.AfterFunc(ctx, c.close)
	if c.ServerConn, err = ftp.Dial(at, ftp.DialWithDialFunc(dial)); err != nil {
		c.cut()
		return nil, told(err)
	}
	if err := c.Login(name, password); err != nil {
		c.cut()
		return nil, notIn(err)
	}
	return c, nil
}

// login returns the user and the password of a URL.
func login(user *url.Userinfo) (name, password string, err error) {
	name, password = "anonymous", "anonymous"
	if user != nil {
		name = user.Username()
		password, _ = user.Password()
	}
	if strings.ContainsAny(name+password, "\r\n\x00") {
		err = &Error{"login", "must have a user and a password without control characters"}
	}
	return name, password, err
}

// notIn is an error of a login that callers understand. The client has no code of all that servers say.
func notIn(err error) error {
	var network net.Error
	if replyOf(err)/100 == 4 || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, errReply) {
		return told(err)
	}
	return &Error{"login", "must have a user and a password that the server of FTP takes"}
}

// cut ends the session.
func (c *ftpConn) cut() {
	c.stop()
	c.close()
}

// close closes all connections.
func (c *ftpConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// replies is the connection for commands. Each reply comes within objects.Stall, and has maxReply bytes at most.
type replies struct {
	net.Conn
	left int
}

const maxReply = 64 << 10

var errReply = fmt.Errorf("a reply of the server has more than %d bytes", maxReply)

// next begins to wait for a reply.
func (c *replies) next() {
	_ = c.SetDeadline(time.Now().Add(objects.Stall))
	c.left = maxReply
}

// Read implements io.Reader.
func (c *replies) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errReply
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// Write implements io.Writer.
func (c *replies) Write(p []byte) (int, error) {
	c.next()
	return c.Conn.Write(p)
}

// transfer is a connection for data. Its server sends something within objects.Stall. A reply follows its end.
type transfer struct {
	net.Conn
	of *ftpConn
}

// Read implements io.Reader.
func (c *transfer) Read(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(objects.Stall))
	n, err := c.Conn.Read(p)
	if c.of.listing == 0 {
		return n, err
	}
	if c.of.listing -= n; c.of.listing <= 0 {
		c.of.listing = 1 // so it is still one, and no bytes are left
		return 0, errListing
	}
	return n, err
}

// Close implements io.Closer.
func (c *transfer) Close() error {
	c.of.replies.next()
	return c.Conn.Close()
}

// replyOf is the code of a reply of the server; 0: the error is none.
func replyOf(err error) int {
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return reply.Code
	}
	return 0
}

// missing reports whether a reply means that the file does not exist. Some servers use the code of a busy file for that.
func missing(err error) bool {
	return replyOf(err) == ftp.StatusFileUnavailable || replyOf(err) == ftp.StatusFileActionIgnored
}

// told is an error that callers understand. It does not have the password.
func told(err error) error {
	switch {
	case netguard.Refused(err):
		return &Error{"private", "must lead to a public network, or to one that MILLRACE_UPLOADS_ALLOW names"}
	case missing(err):
		return &Error{"missing", "must name a file that is there and can be read"}
	case replyOf(err) != 0: // its text is the server's
		return fmt.Errorf("%w: it answers %d", ErrAway, replyOf(err))
	case errors.Is(err, errListing):
		return errListing
	}
	return fmt.Errorf("%w: %.200s", ErrAway, err)
}

// ftpFile is a file that is being read.
type ftpFile struct {
	*ftpConn
	path   string
	data   *ftp.Response
	before ftpState
	bytes  int64
	end    error
}

// ftpState is what a server tells of a file. What it does not tell is zero.
type ftpState struct {
	size     int64
	modified time.Time
}

func (f *ftpFile) state() (s ftpState, err error) {
	if s.size, err = f.FileSize(f.path); err != nil && replyOf(err) != ftp.StatusNotImplemented &&
		replyOf(err) != ftp.StatusBadCommand {
		return s, err
	}
	if f.IsGetTimeSupported() {
		s.modified, err = f.GetTime(f.path)
		return s, err
	}
	return s, nil
}

func (f *ftpFile) open() (err error) {
	if f.before, err = f.state(); err != nil {
		return err
	}
	f.data, err = f.Retr(f.path)
	return err
}

// Read implements io.Reader.
func (f *ftpFile) Read(p []byte) (int, error) {
	if f.end != nil {
		return 0, f.end
	}
	n, err := f.data.Read(p)
	if f.bytes += int64(n); err != nil {
		f.end = f.whole(err)
		err = f.end
	}
	return n, err
}

// whole returns io.EOF where all of one version was read.
func (f *ftpFile) whole(err error) error {
	if !errors.Is(err, io.EOF) {
		return told(err)
	}
	if err := f.data.Close(); err != nil { // what the server says at the end
		return told(err)
	}
	f.data = nil
	after, err := f.state()
	switch {
	case missing(err):
		return ErrChanged
	case err != nil:
		return told(err)
	case after.size != f.before.size, !after.modified.Equal(f.before.modified), after.size != 0 && after.size != f.bytes:
		return ErrChanged
	}
	return io.EOF
}

// Close implements io.Closer.
func (f *ftpFile) Close() error {
	f.cut()
	return nil
}
