package references

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// script is a server of FTP that answers each command as a test says; no answer: as a server does that has the file a of 3 bytes.
type script struct {
	greeting string
	reply    func(command string) string       // what is sent; empty: as usual
	data     func(command string, w io.Writer) // what a transfer sends; nil: "abc" to RETR, and nothing else
	cut      bool                              // the session ends with the data
	passive  string                            // the reply to PASV, with the port in place of %d,%d
}

// start runs the server until the test ends, and returns its address.
func (s *script) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.session(conn)
		}
	}()
	return l.Addr().String()
}

func (s *script) session(conn net.Conn) {
	defer conn.Close()
	greeting := s.greeting
	if greeting == "" {
		greeting = "220 hello\r\n"
	}
	_, _ = io.WriteString(conn, greeting)
	var data net.Listener
	defer func() {
		if data != nil {
			_ = data.Close()
		}
	}()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		word, _, _ := strings.Cut(lines.Text(), " ")
		var text string
		if s.reply != nil {
			text = s.reply(lines.Text())
		}
		switch {
		case text != "":
		case word == "USER":
			text = "331 password"
		case word == "PASS":
			text = "230 welcome"
		case word == "TYPE":
			text = "200 ok"
		case word == "SIZE":
			text = "213 3"
		case word == "PASV":
			var err error
			if data, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				return
			}
			port := data.Addr().(*net.TCPAddr).Port
			pattern := s.passive
			if pattern == "" {
				pattern = "227 (127,0,0,1,%d,%d)"
			}
			text = fmt.Sprintf(pattern, port/256, port%256)
		case word == "RETR" || word == "LIST":
			_, _ = io.WriteString(conn, "150 here\r\n")
			to, err := data.Accept()
			if err != nil {
				return
			}
			if s.data != nil {
				s.data(lines.Text(), to)
			} else if word == "RETR" {
				_, _ = io.WriteString(to, "abc")
			}
			_ = to.Close()
			if s.cut {
				return
			}
			text = "226 done"
		default:
			text = "502 no"
		}
		if text != "-" {
			_, _ = io.WriteString(conn, text+"\r\n")
		}
	}
}

// endless writes lines until the other side has gone.
func endless(w io.Writer, line string) {
	lines := strings.Repeat(line, 1000)
	for {
		if _, err := io.WriteString(w, lines); err != nil {
			return
		}
	}
}

// bounded runs do, and holds that it takes less than so many bytes of memory at a time.
func bounded(t *testing.T, most uint64, do func()) {
	t.Helper()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, ended := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc {
				peak = max(peak, now.HeapAlloc-before.HeapAlloc)
			}
			select {
			case <-stop:
				ended <- peak
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	if peak := <-ended; peak > most {
		t.Errorf("it took %d MB", peak>>20)
	}
}

// TestHostileFTP: whatever a server of FTP answers, a file is taken whole or not at all, and the error says why, in bounded
// time and memory.
func TestHostileFTP(t *testing.T) {
	slowtest.Mark(t)
	reply := func(to, text string) func(string) string {
		return func(command string) string {
			if strings.HasPrefix(command, to) {
				return text
			}
			return ""
		}
	}
	away, changed := ErrAway.Error(), ErrChanged.Error()
	for name, c := range map[string]struct {
		s    *script
		want string // a part of the error; empty: the file is read
	}{
		"as it should be":          {&script{}, ""},
		"another host in PASV":     {&script{passive: "227 (169,254,169,254,%d,%d)"}, ""},
		"no port in PASV":          {&script{reply: reply("PASV", "227 (1,2)")}, away},
		"a port beyond all":        {&script{reply: reply("EPSV", "229 (|||99999999|)")}, away},
		"no greeting":              {&script{greeting: " "}, away},
		"an endless greeting":      {&script{greeting: strings.Repeat("x", 10<<20)}, away},
		"an endless reply":         {&script{reply: reply("SIZE", "213-a\r\n"+strings.Repeat("213-x\r\n", 1<<20))}, away},
		"no reply":                 {&script{reply: reply("SIZE", "-")}, away},
		"a size that is no number": {&script{reply: reply("SIZE", "213 many")}, away},
		"a size that lies":         {&script{reply: reply("SIZE", "213 5")}, changed},
		"a negative size":          {&script{reply: reply("SIZE", "213 -5")}, changed},
		"an echo of the secret":    {&script{reply: reply("PASS", "421 your password is secret")}, away},
		"no login":                 {&script{reply: reply("USER", "530 who is secret")}, "must have a user and a password that"},
		"the end in the middle":    {&script{cut: true}, away},
		"no file":                  {&script{reply: reply("RETR", "550 no secret")}, "must name a file that is there"},
		"a silent transfer":        {&script{data: func(string, io.Writer) { time.Sleep(15 * time.Second) }}, away},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := c.s.start(t)
			o := opener(t, Config{FTPHosts: []string{at}, Guard: here})
			text, err := content(t, o, "ftp://u:secret@"+at+"/in/a")
			if c.want == "" {
				if text != "abc" || err != nil {
					t.Errorf("%q, %v", text, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || len(err.Error()) > 500 {
				t.Errorf("%q, %.600v; want %q", text, err, c.want)
			}
		})
	}
	at := (&script{}).start(t)
	o := opener(t, Config{FTPHosts: []string{at}, Guard: here})
	refused(t, o, "ftp://u%0D%0ADELE%20a:p@"+at+"/in/a", "login")
	refused(t, o, "ftp://u:p%0ADELE%20a@"+at+"/in/a", "login")
	refused(t, o, "ftp://u:p%00@"+at+"/in/a", "login")
}

// TestHostileListing: what a server of FTP lists is bounded, and names that lead elsewhere are no files.
func TestHostileListing(t *testing.T) {
	slowtest.Mark(t)
	const file = "-rw-r--r-- 1 u g 3 Jan  1 00:00 "
	for name, c := range map[string]struct {
		data func(string, io.Writer)
		want string // the error, or the paths
	}{
		"names": {func(_ string, w io.Writer) {
			for _, name := range []string{"a.csv", "../b.csv", "..", ".", "c/d.csv", "e\x00.csv", "f\rDELE.csv", "../../etc/passwd"} {
				fmt.Fprintf(w, "%s%s\r\n", file, name)
			}
		}, "[a.csv]"},
		"lines that are none":  {func(_ string, w io.Writer) { endless(w, "x\r\n") }, errListing.Error()},
		"a line without end":   {func(_ string, w io.Writer) { endless(w, "x") }, ErrAway.Error()},
		"files":                {func(_ string, w io.Writer) { endless(w, file+"a\r\n") }, errListing.Error()},
		"more files than most": {func(_ string, w io.Writer) { _, _ = io.WriteString(w, strings.Repeat(file+"a\r\n", MaxListed+1)) }, errTooMany.Error()},
		"folders in folders": {func(_ string, w io.Writer) {
			_, _ = io.WriteString(w, strings.Repeat("drwxr-xr-x 1 u g 3 Jan  1 00:00 d\r\n", 3000))
		}, errListing.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			at := (&script{data: c.data}).start(t)
			p, err := NewPlace(Config{Guard: here}, "ftp://u:secret@"+at+"/")
			if err != nil {
				t.Fatal(err)
			}
			bounded(t, 150<<20, func() {
				all, err := p.List(t.Context())
				var paths []string
				for _, e := range all {
					paths = append(paths, e.Path)
				}
				got := fmt.Sprintf("%q", paths)
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(strings.ReplaceAll(got, `"`, ""), c.want) || strings.Contains(got, "secret") {
					t.Errorf("%.300s; want %s", got, c.want)
				}
			})
		})
	}
}

// TestHostileFolder: a file that is larger than any may be is known by its size, and a folder of others than files is
// looked at as far as one of files is.
func TestHostileFolder(t *testing.T) {
	slowtest.Mark(t)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "sparse"), "")
	if err := os.Truncate(filepath.Join(folder, "sparse"), 1<<40); err != nil {
		t.Skip("the file system takes no file of 1 TB: ", err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(folder, "zero")); err != nil {
		t.Fatal(err)
	}
	o := opener(t, Config{Folder: folder})
	f, err := o.Open(t.Context(), "file://"+folder+"/sparse")
	if err != nil || f.Size != 1<<40 {
		t.Fatalf("%+v, %v", f, err)
	}
	_ = f.Close()
	refused(t, o, "file://"+folder+"/zero", "missing")

	many := t.TempDir()
	for i := range maxSeen + 1 {
		if err := os.Symlink("none", filepath.Join(many, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	place, err := NewPlace(Config{}, "file://"+many)
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	if _, err := place.List(t.Context()); !errors.Is(err, errTooMany) {
		t.Errorf("%v", err)
	}
}

// TestNoSecrets: what is shown of a place has no password, also where its URL breaks a rule.
func TestNoSecrets(t *testing.T) {
	for _, location := range []string{
		"ftp://u:secret@/x", "ftp://u:secret@h:x/y", "s3://u:secret@b/c", "http://u:secret@h/", "ftp://u:secret@h/?q", "ftp://u:se%cret@h/",
	} {
		p, err := NewPlace(Config{}, location)
		if err == nil && strings.Contains(p.Name, "secret") || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %+v, %v", location, p, err)
		}
	}
	u, err := url.Parse("ftp://u:secret@127.0.0.1:1/x")
	if err != nil {
		t.Fatal(err)
	}
	o := opener(t, Config{FTPHosts: []string{u.Host}, Guard: here})
	if _, err := content(t, o, u.String()); !errors.Is(err, ErrAway) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestFTPCancelled: a caller that has gone ends a session at any moment.
func TestFTPCancelled(t *testing.T) {
	at := (&script{}).start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 500 {
		if f, err := openFTP(ctx, here, at, nil, "a"); err == nil {
			t.Fatalf("%+v", f)
		}
	}
}
