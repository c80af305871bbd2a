package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

// EnvListen is the setting that errors about the address name.
const EnvListen = "MILLRACE_POSTGRES_LISTEN"

// envDSN is the setting that makes do without this server.
const envDSN = "MILLRACE_POSTGRES_DSN"

// Roles of the cluster.
const (
	// superuser owns the cluster. It has no password, and no rule lets it in:
	// what needs it is done in single-user mode, before the server starts.
	superuser = "postgres"
	// ownRole is Millrace's own role, which owns the database.
	ownRole = "millrace"
	// Analyst is the login of people, who may read what Readers may.
	Analyst = "analyst"
	// Readers is the role that the schema grants reading to.
	Readers = "millrace_reader"
)

// Config describes the server.
type Config struct {
	Engine   string // folder of Postgres, with bin, lib and share; required
	Dir      string // folder for the data and the password; required, made when missing
	Listen   string // host:port; default 127.0.0.1:5432; port 0 takes a free one
	Database string // made when missing; default "millrace"
	// Confine runs the server under the rules of package confine, whose RunStage
	// the main function of this program has to call first.
	Confine bool
	// MakesDatabases lets Millrace's own role make databases: for tests.
	MakesDatabases bool
}

// check fills in the defaults and finds what cannot work.
func (c *Config) check() (host string, port int, err error) {
	if c.Engine == "" || c.Dir == "" {
		return "", 0, errors.New("embedded Postgres: the folders of the engine and of the data are required")
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return "", 0, fmt.Errorf("embedded Postgres: resolve its folder: %w", err)
	}
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:5432")
	c.Database = cmp.Or(c.Database, "millrace")
	host, number, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("embedded Postgres: %s=%s is not host:port: %w", EnvListen, c.Listen, err)
	}
	port, err = strconv.Atoi(number)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("embedded Postgres: %s=%s has no valid port", EnvListen, c.Listen)
	}
	return host, port, nil
}

func (c *Config) program(name string) string { return filepath.Join(c.Engine, "bin", name) }
func (c *Config) data() string               { return filepath.Join(c.Dir, "data") }
func (c *Config) passwordFile() string       { return filepath.Join(c.Dir, "password") }
func (c *Config) analystFile() string        { return filepath.Join(c.Dir, "analyst-password") }
func (c *Config) rolesFile() string          { return filepath.Join(c.Dir, "roles") }
func (c *Config) accessFile() string         { return filepath.Join(c.Dir, "pg_hba.conf") }

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// settings are what this server does not leave to Postgres' defaults. They are
// given on its command line, so that a new release changes them for old folders.
func (s *Server) settings() []string {
	listen := cmp.Or(s.host, "*")
	settings := []string{
		"-D", s.config.data(),
		"-c", "hba_file=" + s.config.accessFile(),
		"-c", "listen_addresses=" + listen,
		"-c", "port=" + strconv.Itoa(s.port),
		"-c", "unix_socket_directories=", // their paths have a short limit
		"-c", "max_connections=100",
		"-c", "max_prepared_transactions=0", // they outlive their sessions
		"-c", "max_notify_queue_pages=1024", // 8 MiB on disk, which any login may fill
		"-c", "shared_buffers=64MB",
		"-c", "max_logical_replication_workers=0",
		"-c", "effective_cache_size=512MB",
		"-c", "fsync=on",
		"-c", "synchronous_commit=on",
		"-c", "full_page_writes=on",
		"-c", "jit=off",
		"-c", "timezone=UTC",
		"-c", "log_timezone=UTC",
		"-c", "log_destination=stderr",
		"-c", "logging_collector=off",
		"-c", "log_line_prefix=",
		"-c", "log_checkpoints=off",
		"-c", "log_min_error_statement=panic", // statements may hold private data
	}
	if s.config.Confine {
		// In shared memory without a name in a folder, of which it has none but
		// its own.
		settings = append(settings, sharedMemory()...)
	}
	return settings
}
