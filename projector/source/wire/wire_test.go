package wire

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// start runs a server until the test ends.
func start(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return srv
}

// connect starts a server and returns a connection to it.
func connect(t *testing.T, o *server.Options, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(start(t, o).ClientURL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// expect reads messages and holds that they are those published.
func expect(t *testing.T, c *Conn, n int, body func(int) []byte) {
	t.Helper()
	for i := 0; i < n; {
		frames, err := c.Next()
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		for _, f := range frames {
			if string(f.Subject) != "a.b" || !bytes.Equal(f.Data, body(i)) {
				t.Fatalf("message %d is on %s, with %d bytes", i, f.Subject, len(f.Data))
			}
			if header := i%3 == 0; header != (f.Header != nil) || (header && !bytes.Contains(f.Header, fmt.Appendf(nil, "N: %d", i))) {
				t.Fatalf("message %d has the header %q", i, f.Header)
			}
			if reply := i%2 == 0; reply != (string(f.Reply) == "r") {
				t.Fatalf("message %d has the reply subject %q", i, f.Reply)
			}
			i++
		}
	}
}

// TestMessages: sizes around those of the buffers, with and without headers
// and replies, arrive whole and in order; an earlier message is not written
// over.
func TestMessages(t *testing.T) {
	for name, option := range map[string]func(*server.Options) []nats.Option{
		"plain": func(*server.Options) []nats.Option { return nil },
		"password": func(o *server.Options) []nats.Option {
			o.Username, o.Password = "u", "p"
			return []nats.Option{nats.UserInfo("u", "p")}
		},
		"token": func(o *server.Options) []nats.Option {
			o.Authorization = "secret"
			return []nats.Option{nats.Token("secret")}
		},
		"nkey": nkey(t),
		"TLS":  encrypted,
	} {
		t.Run(name, func(t *testing.T) {
			o := &server.Options{MaxPayload: 2 << 20}
			nc := connect(t, o, option(o)...)
			c, err := Dial(t.Context(), nc, "a.*")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Request("nobody.is.here", "a.x", []byte("question")); err != nil {
				t.Fatal(err)
			}
			answer, err := c.Next()
			if err != nil || len(answer) != 1 || !bytes.HasPrefix(answer[0].Header, []byte("NATS/1.0 503")) {
				t.Fatalf("answer %+v, %v", answer, err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			sizes := []int{0, 1, slab - 20, slab, slab + 1, 2 << 20}
			for range 500 {
				sizes = append(sizes, rng.IntN(3000))
			}
			body := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, sizes[i]) }
			go func() {
				for i := range sizes {
					m := &nats.Msg{Subject: "a.b", Data: body(i)}
					if i%3 == 0 {
						m.Header = nats.Header{"N": {fmt.Sprint(i)}}
					}
					if i%2 == 0 {
						m.Reply = "r"
					}
					if err := nc.PublishMsg(m); err != nil {
						t.Error(err)
					}
				}
				nc.Flush()
			}()
			expect(t, c, len(sizes), body)
		})
	}
}

func nkey(t *testing.T) func(*server.Options) []nats.Option {
	return func(o *server.Options) []nats.Option {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		o.Nkeys = []*server.NkeyUser{{Nkey: public}}
		return []nats.Option{nats.Nkey(public, pair.Sign)}
	}
}

func encrypted(o *server.Options) []nats.Option {
	certificates := httptest.NewUnstartedServer(nil)
	certificates.StartTLS()
	defer certificates.Close()
	o.TLSConfig, o.TLS, o.TLSTimeout = &tls.Config{Certificates: certificates.TLS.Certificates}, true, 5
	roots := x509.NewCertPool()
	roots.AddCert(certificates.Certificate())
	return []nats.Option{nats.Secure(&tls.Config{RootCAs: roots})}
}

func TestRefused(t *testing.T) {
	nc := connect(t, &server.Options{Username: "u", Password: "p"}, nats.UserInfo("u", "p"))
	nc.Opts.Password = "wrong"
	if _, err := Dial(t.Context(), nc, "a"); err == nil || !bytes.Contains([]byte(err.Error()), []byte("Authorization Violation")) {
		t.Errorf("a wrong password is %v", err)
	}
	nc.Close()
	if _, err := Dial(t.Context(), nc, "a"); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("without a connection: %v", err)
	}
}

func TestCloseEndsNext(t *testing.T) {
	c, err := Dial(t.Context(), connect(t, &server.Options{}), "a")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := c.Next(); ended <- err }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("Next went on")
	}
}

// replay is a connection that gives bytes out in pieces.
type replay struct {
	net.Conn
	text   []byte
	pieces []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := len(r.text)
	if len(r.pieces) > 0 {
		n, r.pieces = min(n, int(r.pieces[0])+1), r.pieces[1:]
	}
	n = copy(p, r.text[:min(n, len(p))])
	r.text = r.text[n:]
	return n, nil
}

func (*replay) Write(p []byte) (int, error)      { return len(p), nil }
func (*replay) SetWriteDeadline(time.Time) error { return nil }

// FuzzFrames: whatever the server sends, in whatever pieces, is read the same
// as in one piece, and nothing panics.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("MSG a.b 1 5\r\nhello\r\nPING\r\nHMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"), []byte{3, 1, 20})
	f.Add([]byte("-ERR 'Authorization Violation'\r\n"), []byte{1})
	f.Add([]byte("MSG a 1 999999999\r\n"), []byte{})
	f.Fuzz(func(t *testing.T, text, pieces []byte) {
		if bytes.Count(text, []byte("MSG ")) > 3 { // each may ask for a slab
			return
		}
		whole, werr := readAll(&Conn{conn: &replay{text: text}})
		parts, perr := readAll(&Conn{conn: &replay{text: text, pieces: pieces}})
		if whole != parts || (werr == nil) != (perr == nil) {
			t.Errorf("in one piece %q, %v; in many %q, %v", whole, werr, parts, perr)
		}
	})
}

// FuzzMessages: messages as a server writes them are read as they were, in
// whatever pieces they come.
func FuzzMessages(f *testing.F) {
	f.Add("events.crawled.00", "$JS.ACK.EVENTS.c.1.2.3.4.5", "NATS/1.0\r\n\r\n", []byte("hello"), []byte{3, 1, 20})
	f.Add("a", "", "", []byte("\r\nMSG a 1 1\r\nx\r\n"), []byte{0})
	f.Fuzz(func(t *testing.T, subject, reply, header string, data, pieces []byte) {
		if subject == "" || strings.ContainsAny(subject+reply, " \r\n") || len(data) > 1<<16 {
			return // no server sends such
		}
		want := Frame{Subject: []byte(subject), Data: data, Size: len(subject) + len(reply) + len(header) + len(data)}
		verb, sizes := "MSG", fmt.Sprint(len(data))
		if header != "" {
			verb, sizes = "HMSG", fmt.Sprint(len(header), " ", len(header)+len(data))
		}
		text := fmt.Appendf(nil, "%s %s 1 %s %s\r\n%s%s\r\n", verb, subject, reply, sizes, header, data)
		text = slices.Concat(text, []byte("PING\r\n"), text)
		c := &Conn{conn: &replay{text: text, pieces: pieces}}
		for left := 2; left > 0; {
			frames, err := c.Next()
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			for _, got := range frames {
				left--
				if !bytes.Equal(got.Subject, want.Subject) || string(got.Reply) != reply || string(got.Header) != header || !bytes.Equal(got.Data, data) || got.Size != want.Size {
					t.Fatalf("%q is read as %+v", text, got)
				}
			}
		}
	})
}

func readAll(c *Conn) (string, error) {
	var all bytes.Buffer
	for {
		frames, err := c.Next()
		for _, f := range frames {
			fmt.Fprintf(&all, "%q %q %q %q\n", f.Subject, f.Reply, f.Header, f.Data)
		}
		if errors.Is(err, io.EOF) {
			return all.String(), nil
		}
		if err != nil {
			return "", err
		}
	}
}

func BenchmarkNext(b *testing.B) {
	one := []byte("HMSG events.crawled.00 1 $JS.ACK.EVENTS.projector-0.1.42.7.1700000000000000001.3 12 312\r\nNATS/1.0\r\n\r\n" +
		string(bytes.Repeat([]byte("x"), 300)) + "\r\n")
	text := bytes.Repeat(one, 1000)
	c := &Conn{}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if n == 0 {
			c.conn = &replay{text: text}
			for n < 1000 {
				frames, err := c.Next()
				if err != nil {
					b.Fatal(err)
				}
				n += len(frames)
			}
		}
		n--
	}
}
