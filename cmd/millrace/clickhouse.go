package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	chserver "github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/confine"
	"github.com/millrace-io/millrace/internal/embedded/engines"
)

// clickhouseCmd serves the engine in two stages. The first one reads what is
// secret and listens; then it confines itself and executes this program anew,
// with the listeners and a pipe for the passwords. The second one loads the
// engine, which has been confined from its first instruction on and finds no
// secret in its environment.
type clickhouseCmd struct {
	Data      string           `help:"Folder for all data." env:"MILLRACE_DATA" default:"./data"`
	Server    clickhouseServer `embed:""`
	Library   string           `hidden:""`
	Inherited inheritedFiles   `hidden:""`
}

// inheritedFiles are file descriptors that the first stage leaves the second.
type inheritedFiles struct{ native, http, secrets uintptr }

func (i inheritedFiles) String() string {
	return fmt.Sprintf("%d,%d,%d", i.native, i.http, i.secrets)
}

func (i *inheritedFiles) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%d,%d,%d", &i.native, &i.http, &i.secrets)
	return err
}

// clickhouseSecrets are the passwords of the logins.
type clickhouseSecrets struct{ Default, Analyst string }

// Run serves the engine until a signal comes.
func (c *clickhouseCmd) Run(p *program) error {
	private()
	if c.Library == "" {
		return c.confine(p)
	}
	if err := confine.ForbidPrograms(); err != nil {
		p.log.Debug("programs are not forbidden to the engine", "error", err)
	}
	secrets, err := c.Inherited.read()
	if err != nil {
		return err
	}
	native, err := inheritedListener(c.Inherited.native)
	if err != nil {
		return err
	}
	web, err := inheritedListener(c.Inherited.http)
	if err != nil {
		return errors.Join(err, native.Close())
	}
	srv, err := chserver.New(chserver.Config{
		Library: c.Library, Path: c.folder(), Database: "millrace",
		Listeners: &chserver.Listeners{Native: native, HTTP: web},
		Password:  secrets.Default, ReadOnlyPassword: secrets.Analyst, MaxMemory: c.Server.MaxMemory,
		MemorySetting: "MILLRACE_CLICKHOUSE_MAX_MEMORY", MaxTime: c.Server.MaxTime,
	}, p.log)
	if err != nil {
		return err
	}
	if err = srv.Run(p.ctx); errors.Is(err, chserver.ErrStuck) {
		return &statusError{err, statusStuck}
	}
	return err
}

func (c *clickhouseCmd) folder() string { return filepath.Join(c.Data, "clickhouse") }

// confine is the first stage. It returns only when it fails.
func (c *clickhouseCmd) confine(p *program) (err error) {
	if c.Library, err = engines.ClickHouse(); err != nil {
		return err
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return fmt.Errorf("resolve the data folder: %w", err)
	}
	if err := makeDir(c.Data); err != nil {
		return err
	}
	if err := closeFolders(c.Data); err != nil {
		return err
	}
	if err := makePrivate(filepath.Join(c.folder(), "tmp")); err != nil {
		return err
	}
	if err := c.Server.complete(c.Data); err != nil {
		return err
	}
	if err := c.Server.check(); err != nil {
		return err
	}
	c.Inherited, err = c.pass()
	if err != nil {
		return err
	}
	self, err := confine.Self()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	env := append(confine.Environ(), "TMPDIR="+filepath.Join(c.folder(), "tmp"))
	return confine.Exec(c.rules(self), self, c.secondStage(p), append(env, chserver.Environ()...), p.death)
}

// rules are what the engine needs: its folder with a temporary one in it, its
// library, and what the machine says of its clock, processors and memory.
func (c *clickhouseCmd) rules(self string) confine.Rules {
	return confine.Rules{
		Programs: []string{self},
		Write:    []string{c.folder()},
		Read: []string{
			c.Library, "/etc/localtime", "/usr/share/zoneinfo",
			"/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage", "/proc/meminfo",
			"/proc/cpuinfo",
		},
	}
}

// secondStage are the arguments of the second stage, without secrets.
func (c *clickhouseCmd) secondStage(p *program) []string {
	return []string{
		"--log-format=" + p.logging.Format, "--log-level=" + p.logging.Level.String(), "clickhouse", "--data=" + c.Data,
		"--clickhouse-listen=" + c.Server.Listen, "--clickhouse-http=" + c.Server.HTTP,
		"--clickhouse-max-memory=" + strconv.FormatInt(c.Server.MaxMemory, 10),
		"--clickhouse-max-time=" + c.Server.MaxTime.String(),
		"--library=" + c.Library, "--inherited=" + c.Inherited.String(),
	}
}

// pass opens what the second stage inherits.
func (c *clickhouseCmd) pass() (passed inheritedFiles, err error) {
	listeners, err := chserver.Listen(chserver.Config{Listen: c.Server.Listen, HTTPListen: c.Server.HTTP})
	if err != nil {
		return passed, fmt.Errorf("%w (MILLRACE_CLICKHOUSE_LISTEN and MILLRACE_CLICKHOUSE_HTTP say where)", err)
	}
	text, err := json.Marshal(clickhouseSecrets{Default: c.Server.Password, Analyst: c.Server.AnalystPassword})
	if err != nil {
		return passed, fmt.Errorf("pass the passwords: %w", err)
	}
	read, write, err := os.Pipe() // which holds at least a page
	if err != nil {
		return passed, fmt.Errorf("pass the passwords: %w", err)
	}
	if _, err := write.Write(text); err != nil {
		return passed, fmt.Errorf("pass the passwords: %w", err)
	}
	if err := write.Close(); err != nil {
		return passed, fmt.Errorf("pass the passwords: %w", err)
	}
	if passed.native, err = inheritable(listeners.Native.(*net.TCPListener)); err != nil {
		return passed, err
	}
	if passed.http, err = inheritable(listeners.HTTP.(*net.TCPListener)); err != nil {
		return passed, err
	}
	passed.secrets, err = inheritable(read)
	return passed, err
}

// inheritable duplicates the descriptor of a file, for programs that this
// process executes.
func inheritable(file syscall.Conn) (fd uintptr, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("pass a file on: %w", err)
	}
	var copied int
	var failed error
	err = raw.Control(func(fd uintptr) { copied, failed = syscall.Dup(int(fd)) })
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("pass a file on: %w", err)
	}
	return uintptr(copied), nil
}

// read takes the passwords out of their pipe, which is closed: the engine could
// open it again.
func (i inheritedFiles) read() (secrets clickhouseSecrets, err error) {
	f := os.NewFile(i.secrets, "passwords")
	if err := json.NewDecoder(f).Decode(&secrets); err != nil {
		return secrets, errors.Join(fmt.Errorf("read the passwords: %w", err), f.Close())
	}
	return secrets, f.Close()
}

func inheritedListener(fd uintptr) (net.Listener, error) {
	f := os.NewFile(fd, "listener")
	l, err := net.FileListener(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("listen on what was inherited: %w", err)
	}
	return l, nil
}

// passwordFile holds the generated password of the login default: beside the
// engine's folder, where the engine cannot read it.
const passwordFile = "clickhouse-password"

// complete fills in the password of the login default, which is generated once
// and kept in the data folder when it is not set.
func (s *clickhouseServer) complete(data string) (err error) {
	if s.Password == "" {
		s.Password, err = keptPassword(filepath.Join(data, passwordFile))
	}
	return err
}
