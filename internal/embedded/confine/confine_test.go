package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The test binary is also the stage, and the confined program: it tries what it
// is told to, and answers with what it could do.
const envTry = "CONFINE_TEST_TRY"

func TestMain(m *testing.M) {
	RunStage(os.Args)
	if text := os.Getenv(envTry); text != "" {
		tryAll(text)
	}
	os.Exit(m.Run())
}

// things are what a confined program may be told to try.
type things struct {
	Inside, Outside, Secret, Address, Socket string
	Port, Parent                             int
}

func tryAll(text string) {
	var t things
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		panic(err)
	}
	write := func(dir string) error { return os.WriteFile(filepath.Join(dir, "written"), []byte("x"), 0o600) }
	read := func(path string) error { _, err := os.ReadFile(path); return err }
	dial := func(network, address string) error {
		c, err := net.Dial(network, address)
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	}
	listen := func(port int) error { _, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port)); return err }
	results := map[string]string{}
	for name, err := range map[string]error{
		"write inside": write(t.Inside), "read inside": read(filepath.Join(t.Inside, "written")),
		"listen on its port": listen(t.Port),
		"write outside":      write(t.Outside), "read a secret": read(t.Secret),
		"list outside":     func() error { _, err := os.ReadDir(t.Outside); return err }(),
		"read /etc/passwd": read("/etc/passwd"), "read its own environment": read("/proc/self/environ"),
		"read the environment of its parent": read("/proc/" + strconv.Itoa(t.Parent) + "/environ"),
		"run a shell":                        exec.Command("/bin/sh", "-c", "true").Run(),
		"listen elsewhere":                   listen(0),
		"connect":                            dial("tcp", t.Address), "send a datagram": dial("udp", t.Address),
		"connect to a Unix socket": dial("unix", t.Socket),
		"signal its parent":        syscall.Kill(t.Parent, 0), "trace its parent": trace(t.Parent),
		"link a secret to its folder": os.Link(t.Secret, filepath.Join(t.Inside, "linked")),
	} {
		results[name] = fmt.Sprint(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// trace asks for a process without stopping it.
func trace(pid int) error {
	const seize = 0x4206
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// TestCommand: a program that is confined does what it has to, and nothing else;
// without confinement the same program does all of it.
func TestCommand(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	dir := t.TempDir()
	tried := things{
		Inside: filepath.Join(dir, "inside"), Outside: filepath.Join(dir, "outside"),
		Secret:  filepath.Join(dir, "secret"),
		Address: l.Addr().String(), Socket: filepath.Join(dir, "socket"), Port: port, Parent: os.Getpid(),
	}
	unix, err := net.Listen("unix", tried.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	for _, err := range []error{
		os.Mkdir(tried.Inside, 0o700), os.Mkdir(tried.Outside, 0o700),
		os.WriteFile(tried.Secret, []byte("x"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AUTH_JWT_SECRET", "not-for-children")
	rules := Rules{Programs: []string{os.Args[0]}, Write: []string{tried.Inside}, Listen: []uint16{uint16(port)}}
	allowed := map[string]bool{"write inside": true, "read inside": true, "listen on its port": true}
	report, results := runConfined(t, rules, tried)
	if !report.Whole() {
		if os.Getenv("CI") == "true" {
			t.Fatal(report)
		}
		t.Skip(report)
	}
	for name, result := range results {
		if done := result == "<nil>"; done != allowed[name] {
			t.Errorf("%s: %s", name, result)
		}
	}
	cmd := exec.Command(os.Args[0])
	for name, result := range outcome(t, cmd, tried) {
		if result != "<nil>" && name != "link a secret to its folder" && name != "send a datagram" {
			t.Errorf("%s, without confinement, proves nothing: %s", name, result)
		}
	}
}

// runConfined runs the program in a stage, and reads the report.
func runConfined(t *testing.T, rules Rules, tried things) (Report, map[string]string) {
	t.Helper()
	path, args, err := Command(rules, os.Args[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	cmd := exec.Command(path, args...)
	cmd.ExtraFiles = []*os.File{to}
	cmd.Env = append(Environ(), ReportTo(3))
	results := outcome(t, cmd, tried)
	to.Close()
	report, given, err := ReadReport(from)
	if !given || err != nil {
		t.Fatal(given, err)
	}
	return report, results
}

func outcome(t *testing.T, cmd *exec.Cmd, tried things) map[string]string {
	t.Helper()
	text, err := json.Marshal(tried)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Environ(), envTry+"="+string(text))
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	results := map[string]string{}
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return results
}

// TestReport names what holds, and what does not.
func TestReport(t *testing.T) {
	for want, r := range map[string]Report{
		"landlock 7, seccomp":                       {Landlock: 7, Seccomp: true},
		"seccomp; missing: kernel without Landlock": {Seccomp: true, Missing: []string{"kernel without Landlock"}},
		"none; missing: a; b":                       {Missing: []string{"a", "b"}},
	} {
		if got := r.String(); got != want || r.Whole() != (len(r.Missing) == 0) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestEnviron: nothing but what is known to be harmless is passed on.
func TestEnviron(t *testing.T) {
	t.Setenv("AUTH_JWT_SECRET", "secret")
	t.Setenv("MILLRACE_CLICKHOUSE_DSN", "clickhouse://u:secret@h")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if all := strings.Join(Environ(), " "); strings.Contains(all, "secret") || !strings.Contains(all, "PATH=") {
		t.Error(all)
	}
}

// TestFailedStage: a program that cannot be executed ends the stage with an
// error that names it.
func TestFailedStage(t *testing.T) {
	path, args, err := Command(Rules{}, "/not/there", []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(out), "execute /not/there") {
		t.Errorf("%v: %s", err, out)
	}
}
