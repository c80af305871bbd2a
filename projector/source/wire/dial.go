package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// greeting is what matters of the server's first line.
type greeting struct {
	Nonce        string `json:"nonce"`
	TLSRequired  bool   `json:"tls_required"`
	TLSAvailable bool   `json:"tls_available"`
	Headers      bool   `json:"headers"`
}

// hello is the client's.
type hello struct {
	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	JWT          string `json:"jwt,omitempty"`
	Nkey         string `json:"nkey,omitempty"`
	Signature    string `json:"sig,omitempty"`
	User         string `json:"user,omitempty"`
	Password     string `json:"pass,omitempty"`
	Token        string `json:"auth_token,omitempty"`
	TLSRequired  bool   `json:"tls_required"`
	Name         string `json:"name"`
	Language     string `json:"lang"`
	Version      string `json:"version"`
	Protocol     int    `json:"protocol"`
	Echo         bool   `json:"echo"`
	Headers      bool   `json:"headers"`
	NoResponders bool   `json:"no_responders"`
}

func dial(ctx context.Context, nc *nats.Conn) (*Conn, error) {
	address := nc.ConnectedUrl()
	if address == "" {
		return nil, nats.ErrDisconnected
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(u.Scheme, "ws") {
		return nil, fmt.Errorf("a projector reads over nats:// or tls://, not %s://", u.Scheme)
	}
	conn, err := open(ctx, nc.Opts, u)
	if err != nil {
		return nil, err
	}
	c, err := handshake(ctx, conn, nc, u)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func open(ctx context.Context, o nats.Options, u *url.URL) (net.Conn, error) {
	switch {
	case o.InProcessServer != nil:
		return o.InProcessServer.InProcessConn()
	case o.CustomDialer != nil:
		return o.CustomDialer.Dial("tcp", u.Host)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", u.Host)
}

// handshake greets the server. It is over when the server has answered a ping,
// before which it says what it refuses.
func handshake(ctx context.Context, conn net.Conn, nc *nats.Conn, u *url.URL) (*Conn, error) {
	o := nc.Opts
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	plain := conn // conn may become another below
	defer context.AfterFunc(ctx, func() { plain.SetDeadline(time.Unix(1, 0)) })()
	secure := o.Secure || u.Scheme == "tls"
	var err error
	if o.TLSHandshakeFirst {
		if conn, err = encrypt(ctx, conn, nc, u); err != nil {
			return nil, err
		}
	}
	server, err := greeted(conn)
	if err != nil {
		return nil, err
	}
	if !o.TLSHandshakeFirst && (server.TLSRequired || secure) {
		if conn, err = encrypt(ctx, conn, nc, u); err != nil {
			return nil, err
		}
	}
	h, err := introduce(o, u, server.Nonce)
	if err != nil {
		return nil, err
	}
	h.TLSRequired, h.Headers, h.NoResponders = secure, server.Headers, server.Headers
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: conn, buf: make([]byte, slab)}
	if err := c.send([]byte("CONNECT " + string(text) + "\r\nPING\r\n")); err != nil {
		return nil, err
	}
	if err := c.accepted(); err != nil {
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

// greeted reads the server's first line, a byte at a time: what follows it may
// be encrypted.
func greeted(conn net.Conn) (g greeting, err error) {
	line, err := bufio.NewReaderSize(single{conn}, 16).ReadString('\n')
	if err != nil {
		return g, fmt.Errorf("read the server's greeting: %w", err)
	}
	text, ok := strings.CutPrefix(line, "INFO ")
	if !ok {
		return g, fmt.Errorf("%w: it begins with %.40q", ErrProtocol, line)
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return g, fmt.Errorf("read the server's greeting: %w", err)
	}
	return g, nil
}

// single reads one byte at a time.
type single struct{ net.Conn }

func (s single) Read(p []byte) (int, error) { return s.Conn.Read(p[:1]) }

func encrypt(ctx context.Context, conn net.Conn, nc *nats.Conn, u *url.URL) (net.Conn, error) {
	o, cfg := nc.Opts, new(tls.Config)
	if o.TLSConfig != nil {
		cfg = o.TLSConfig.Clone()
	}
	if o.TLSCertCB != nil {
		cert, err := o.TLSCertCB()
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	if o.RootCAsCB != nil {
		roots, err := o.RootCAsCB()
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = roots
	}
	if cfg.ServerName == "" {
		cfg.ServerName = u.Hostname()
		// The servers of a cluster may tell of each other by address alone. Their
		// certificates are held to the name by which nc has come to the cluster.
		if known, err := nc.TLSConnectionState(); err == nil && known.ServerName != "" {
			cfg.ServerName = known.ServerName
		}
	}
	t := tls.Client(conn, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return t, nil
}

// introduce says who the client is, by the credentials of the options or, if
// it has any, of the address.
func introduce(o nats.Options, u *url.URL, nonce string) (h hello, err error) {
	h = hello{Name: o.Name + " reader", Language: "go", Version: nats.Version, Protocol: 1, Echo: true}
	if u.User != nil {
		if password, ok := u.User.Password(); ok {
			h.User, h.Password = u.User.Username(), password
		} else {
			h.Token = u.User.Username()
		}
	} else {
		h.User, h.Password, h.Token, h.Nkey = o.User, o.Password, o.Token, o.Nkey
		if o.UserInfo != nil {
			h.User, h.Password = o.UserInfo()
		}
	}
	if o.TokenHandler != nil {
		h.Token = o.TokenHandler()
	}
	if o.UserJWT != nil {
		if h.JWT, err = o.UserJWT(); err != nil {
			return h, err
		}
	}
	if (h.JWT != "" || h.Nkey != "") && o.SignatureCB != nil {
		signature, err := o.SignatureCB([]byte(nonce))
		if err != nil {
			return h, fmt.Errorf("sign the server's nonce: %w", err)
		}
		h.Signature = base64.RawURLEncoding.EncodeToString(signature)
	}
	return h, nil
}

// accepted reads until the server has answered the ping.
func (c *Conn) accepted() error {
	for {
		if err := c.fill(); err != nil {
			return err
		}
		for rest := c.buf[c.start:c.end]; len(rest) > 0; rest = c.buf[c.start:c.end] {
			pong := hasPrefix(rest, "PONG\r\n")
			more, err := c.step()
			if err != nil || pong {
				return err
			}
			if !more {
				break
			}
		}
	}
}
