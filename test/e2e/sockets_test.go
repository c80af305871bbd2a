package e2e

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
)

const (
	liveLimit  = 10_000 // WebSockets that a server has by default
	idleBytes  = 40 << 10
	spareFiles = 3000 // of a test and of a server besides
)

// allowFiles lets this process, and what it starts, open so many files.
func allowFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= n {
		return
	}
	limit.Cur, limit.Max = n, max(limit.Max, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skipf("10,000 WebSockets need %d open files, and the system does not allow as many: %v", n, err)
	}
}

// testIdleSockets: 10,000 WebSockets that have subscribed and say nothing are
// held in bounded memory, one more is told so, and when they have gone nothing
// of them is left.
func testIdleSockets(t *testing.T, s *server) {
	files := uint64(liveLimit+spareFiles) * 4 / 3 // the server keeps a quarter for other things
	allowFiles(t, files)
	poll(t, waitLimit, "earlier WebSockets to be gone", func() bool {
		return s.metric(t, "millrace_live_connections") == 0
	})
	before := s.usage(t)
	if before.limit < float64(files) {
		t.Skipf("10,000 WebSockets need a server that may open %d files; it may open %.0f", files, before.limit)
	}
	conns := s.dialIdle(t, liveLimit)
	poll(t, waitLimit, "memory of idle WebSockets to be collected", func() bool {
		return (s.usage(t).memory-before.memory)/liveLimit < idleBytes
	})
	during := s.usage(t)
	t.Logf("%d WebSockets: %.1f KB, %.2f goroutines and %.2f files each", liveLimit,
		(during.memory-before.memory)/liveLimit/1000,
		(during.goroutines-before.goroutines)/liveLimit, (during.files-before.files)/liveLimit)
	_, resp, err := s.live(t, "?access_token="+token(t, "read"), nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable ||
		resp.Header.Get("Retry-After") == "" {
		t.Errorf("one WebSocket too many: %+v, %v, want status 503 and Retry-After", resp, err)
	} else if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "too many connections") {
		t.Errorf("one WebSocket too many is told: %s", body)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	var after usage
	poll(t, waitLimit, "what idle WebSockets took to be released", func() bool {
		after = s.usage(t)
		return s.metric(t, "millrace_live_connections") == 0 && after.files < before.files+100 &&
			after.goroutines < before.goroutines+200
	})
	if conn, _, err := s.live(t, "?access_token="+token(t, "read"), nil); err != nil {
		t.Errorf("after they have gone: %v", err)
	} else {
		_ = conn.Close()
	}
}

// dialIdle opens WebSockets, each with a subscription that nothing happens to,
// from several addresses, since each has only so many ports.
func (s *server) dialIdle(t *testing.T, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	request := "GET " + api + "/live HTTP/1.1\r\nHost: " + s.ports.HTTP +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer " + token(t, "read") + "\r\n\r\n"
	subscribe := clientFrame(1, true, `{"op":"subscribe","id":"a","view":"funnel","source":"nobody"}`)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var dialers sync.WaitGroup
	var failed sync.Once
	const side = 16
	for k := range side {
		dialers.Go(func() {
			scratch := bufio.NewReader(nil)
			for i := k; i < n && ctx.Err() == nil; i += side {
				var err error
				if conns[i], err = dialFrom(ctx, i%4, s.ports.HTTP); err == nil {
					err = upgrade(conns[i], scratch, request, subscribe)
				}
				if err != nil {
					failed.Do(func() { t.Errorf("WebSocket %d: %v", i, err) })
					cancel()
				}
			}
		})
	}
	dialers.Wait()
	t.Cleanup(func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return conns
}

// dialFrom connects from one of several addresses of this machine, where it has
// them.
func dialFrom(ctx context.Context, from int, to string) (net.Conn, error) {
	var d net.Dialer
	if runtime.GOOS == "linux" {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+from))}
	}
	return d.DialContext(ctx, "tcp", to)
}

// upgrade makes a connection a WebSocket and waits for its first snapshot. It
// is done by hand: a client's own buffers would take this process's memory.
func upgrade(conn net.Conn, in *bufio.Reader, request string, subscribe []byte) error {
	_ = conn.SetDeadline(time.Now().Add(waitLimit))
	in.Reset(conn)
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(resp.Status)
	}
	if _, err := conn.Write(subscribe); err != nil {
		return err
	}
	if _, err := in.ReadSlice('}'); err != nil && !errors.Is(err, bufio.ErrBufferFull) { // some of it has come
		return err
	}
	return nil
}

// clientFrame is a frame as clients send it, masked by zeros.
func clientFrame(opcode byte, final bool, text string) []byte {
	if final {
		opcode |= 0x80
	}
	head := []byte{opcode, 0x80 | byte(min(len(text), 126))}
	if len(text) >= 126 {
		head = append(head, byte(len(text)>>8), byte(len(text)))
	}
	return append(append(head, 0, 0, 0, 0), text...)
}

// usage is what the server's process takes.
type usage struct{ memory, goroutines, files, limit float64 }

func (s *server) usage(t *testing.T) usage {
	return usage{
		memory:     s.metric(t, "go_memstats_heap_inuse_bytes") + s.metric(t, "go_memstats_stack_inuse_bytes"),
		goroutines: s.metric(t, "go_goroutines"),
		files:      s.metric(t, "process_open_fds"), limit: s.metric(t, "process_max_fds"),
	}
}

// metric reads one figure.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	resp, err := http.Get(s.url("/metrics"))
	_, _, body := s.read(resp, err)
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// testDeafSubscribers: those that subscribe to all they can and never read are
// dropped, and one beside them misses nothing.
func testDeafSubscribers(t *testing.T, s *server) {
	reader := token(t, "read")
	var deaf []*websocket.Conn
	dialer := websocket.Dialer{NetDialContext: (&net.Dialer{Control: shortOfHearing}).DialContext}
	for range 20 {
		conn, _, err := dialer.DialContext(t.Context(), "ws://"+s.ports.HTTP+api+"/live?access_token="+reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		deaf = append(deaf, conn)
	}
	for _, conn := range deaf {
		for i := range 200 { // beyond the limit of a connection
			m := map[string]string{
				"op": "subscribe", "id": fmt.Sprint(i), "view": "funnel",
				"period": []string{"today", "24h", "7d", "30d"}[i%4],
			}
			_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
			if conn.WriteJSON(m) != nil {
				break // it is not read from any more, or closed
			}
		}
	}
	good, _, err := s.live(t, "?access_token="+reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	if err := good.WriteJSON(map[string]string{
		"op": "subscribe", "id": "good", "view": "funnel",
		"period": "24h",
	}); err != nil {
		t.Fatal(err)
	}
	for seq := 1; len(deaf) > 0; seq++ {
		_ = good.SetReadDeadline(time.Now().Add(waitLimit))
		var m struct{ Seq int }
		if err := good.ReadJSON(&m); err != nil || m.Seq != seq {
			t.Fatalf("beside deaf subscribers, one gets snapshot %d, %v, want %d", m.Seq, err, seq)
		}
		// Who has been dropped cannot be written to.
		if last := deaf[len(deaf)-1]; last.WriteControl(websocket.PingMessage, nil,
			time.Now().Add(time.Millisecond)) != nil {
			deaf = deaf[:len(deaf)-1]
		}
		if seq > 10_000 {
			t.Fatalf("%d deaf subscribers have not been dropped", len(deaf))
		}
	}
}

// shortOfHearing leaves a connection little room for what is not read.
func shortOfHearing(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
}

// testExpiry: a WebSocket and a feed end with the token that opened them.
func testExpiry(t *testing.T, s *server) {
	end := time.Now().Add(15 * time.Second) // both are open by then
	short := sign(t, attackSecret, jwt.SigningMethodHS256,
		jwt.MapClaims{"sub": "t", "scope": "read", "exp": end.Unix()})
	conn, _, err := s.live(t, "?access_token="+short, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.WriteJSON(map[string]string{"op": "subscribe", "id": "a", "view": "funnel"}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url(api+"/pipeline/transitions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+short)
	feed, err := http.DefaultClient.Do(req)
	if err != nil || feed.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", feed, err)
	}
	defer feed.Body.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, feed.Body)
		ended <- err
	}()
	_ = conn.SetReadDeadline(time.Now().Add(waitLimit))
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation ||
		!strings.Contains(closed.Text, "expired") {
		t.Errorf("when its token expires, a WebSocket ends with %v", err)
	}
	select {
	case <-ended:
	case <-time.After(waitLimit):
		t.Error("a feed goes on after its token has expired")
	}
	if status, _ := s.with(t, short, http.MethodGet, "/funnel", ""); status != http.StatusUnauthorized {
		t.Errorf("an expired token: status %d", status)
	}
}

// deflated returns a compressed message of n bytes when it is decompressed, as
// permessage-deflate has it: without the end of the last block.
func deflated(t *testing.T, n int) string {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bytes.Repeat([]byte(" "), n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\x00\x00\xff\xff")
}

// testFrames: frames that break the protocol, have no end, or become too long
// when they are decompressed, end their WebSocket with a reason.
func testFrames(t *testing.T, s *server) {
	hello := "GET " + api + "/live HTTP/1.1\r\nHost: " + s.ports.HTTP +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate; " +
		"client_max_window_bits\r\nAuthorization: Bearer " + token(t, "read") + "\r\n\r\n"
	const part = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	endless := append(clientFrame(1, false, part), bytes.Repeat(clientFrame(0, false, part), 200)...)
	for name, c := range map[string]struct {
		sent []byte
		code int
	}{
		"fragments without end": {endless, websocket.CloseMessageTooBig},
		"empty fragments": {append(clientFrame(1, false, "{"),
			append(bytes.Repeat(clientFrame(0, false, ""), 100_000),
				clientFrame(2, true, "")...)...), websocket.CloseProtocolError},
		"a frame of 2^63 bytes": {[]byte{0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0},
		"a frame of 1 GB": {
			[]byte{0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0},
			websocket.CloseMessageTooBig,
		},
		"a large ping":                {clientFrame(9, true, part+part), websocket.CloseProtocolError},
		"a ping in fragments":         {clientFrame(9, false, "x"), websocket.CloseProtocolError},
		"an unmasked frame":           {[]byte{0x81, 2, '{', '}'}, websocket.CloseProtocolError},
		"a continuation of nothing":   {clientFrame(0, true, "{}"), websocket.CloseProtocolError},
		"a frame that is no deflate":  {clientFrame(0x41, true, "\xff\xff"), 0},
		"a compressed bomb":           {clientFrame(0x41, true, deflated(t, 2<<20)), websocket.CloseMessageTooBig},
		"an unknown kind of frame":    {clientFrame(7, true, "{}"), websocket.CloseProtocolError},
		"a close with a wrong status": {clientFrame(8, true, "\x00\x01"), websocket.CloseProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.ports.HTTP)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(waitLimit))
			if _, err := io.WriteString(conn, hello); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != http.StatusSwitchingProtocols ||
				!strings.HasPrefix(resp.Header.Get("Sec-Websocket-Extensions"), "permessage-deflate") {
				t.Fatalf("%+v, %v", resp, err)
			}
			go func() { _, _ = conn.Write(c.sent) }() // it may be cut off
			rest, err := io.ReadAll(in)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("the WebSocket stays open")
			}
			want := []byte{0x88, 0, byte(c.code >> 8), byte(c.code)}
			if c.code != 0 && err == nil && (len(rest) < 4 || rest[0] != want[0] || !bytes.Equal(rest[2:4], want[2:])) {
				t.Errorf("it ends with %q, want a close frame with %d", rest, c.code)
			}
		})
	}
	conn, _, err := s.live(t, "?access_token="+token(t, "read"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, value := range nasty() { // as any field of a request
		for _, field := range []string{"op", "id", "view", "period", "source", "tz"} {
			m := map[string]string{"op": "subscribe", "id": fmt.Sprint(field, i), "view": "funnel"}
			m[field] = value
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > 4<<10 {
				continue // that would end the WebSocket
			}
			_ = conn.SetReadDeadline(time.Now().Add(waitLimit))
			if err := conn.WriteMessage(websocket.TextMessage, text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			var answer struct{ Error *problem }
			if err := conn.ReadJSON(&answer); err != nil || answer.Error != nil && answer.Error.Status >= 500 &&
				answer.Error.Status != http.StatusServiceUnavailable {
				t.Fatalf("%s: %+v, %v", text, answer, err)
			}
		}
	}
}
