package embeddedtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
)

// Shards is a ClickHouse cluster for tests: servers in processes of their own, of this test's binary, that answer
// each other's queries. Each is a shard without replicas.
type Shards struct {
	cluster clickhouse.Cluster
	dir     string
	running []shard
}

// shard is a process; its zero value does not run.
type shard struct {
	cmd   *exec.Cmd
	stdin io.Closer // it ends when this is closed
	web   string    // address of its HTTP interface
}

// ClusterName is the name of the cluster that Shards are.
const ClusterName = "main"

// StartShards starts a cluster that lives as long as the test. The main of the test's package has to call
// [ClickHouse.Main] or [Shard].
func StartShards(t testing.TB, shards int) *Shards {
	t.Helper()
	s, err := startShards(t.TempDir(), shards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// startShards starts shards with their data in dir.
func startShards(dir string, shards int) (*Shards, error) {
	s := &Shards{cluster: clickhouse.Cluster{Name: ClusterName}, dir: dir, running: make([]shard, shards)}
	var listeners []net.Listener
	for range shards {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		s.cluster.Shards = append(s.cluster.Shards, l.Addr().String())
	}
	for i, l := range listeners {
		if err := s.start(i, l); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	return s, nil
}

// Start starts the shard at i again, with what it holds.
func (s *Shards) Start(t testing.TB, i int) {
	t.Helper()
	l, err := net.Listen("tcp", s.cluster.Shards[i])
	if err == nil {
		err = s.start(i, l)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the shard at i, which inherits a listener.
func (s *Shards) start(i int, native net.Listener) error {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config, err := shardConfig{Dir: filepath.Join(s.dir, strconv.Itoa(i)), Cluster: s.cluster}.environ()
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), config)
	cmd.Stderr = os.Stderr
	for _, l := range []net.Listener{native, web} {
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		defer file.Close()
		defer l.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running[i] = shard{cmd, stdin, web.Addr().String()}
	said := make([]byte, len(shardReady))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != shardReady {
		return fmt.Errorf("shard %d does not start: %q, %w", i, said, err)
	}
	return nil
}

// Stop stops the shard at i and waits for its end.
func (s *Shards) Stop(t testing.TB, i int) {
	t.Helper()
	if err := s.end(i); err != nil {
		t.Error(err)
	}
}

// Kill kills the shard at i.
func (s *Shards) Kill(t testing.TB, i int) {
	t.Helper()
	if err := s.running[i].cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = s.end(i) // which tells that it was killed
}

func (s *Shards) stop() error {
	var failed []error
	for i := range s.running {
		failed = append(failed, s.end(i))
	}
	return errors.Join(failed...)
}

func (s *Shards) end(i int) error {
	one := s.running[i]
	if one.cmd == nil {
		return nil
	}
	s.running[i] = shard{}
	_ = one.stdin.Close()
	if err := one.cmd.Wait(); err != nil {
		return fmt.Errorf("shard %d: %w", i, err)
	}
	return nil
}

// ClickHouse has tests run over the shards.
func (s *Shards) ClickHouse() *ClickHouse { return &ClickHouse{shards: s} }

// HTTPAddr is where the shard at i serves HTTP.
func (s *Shards) HTTPAddr(i int) string { return s.running[i].web }

// Len is how many shards there are.
func (s *Shards) Len() int { return len(s.running) }

// Options connect to the shard at i, as Millrace connects to a cluster.
func (s *Shards) Options(i int, database string) *driver.Options {
	return &driver.Options{
		Addr:     []string{s.cluster.Shards[i]},
		Auth:     driver.Auth{Database: database, Username: "default"},
		Settings: driver.Settings{"distributed_foreground_insert": 1},
	}
}
