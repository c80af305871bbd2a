package nats

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/millrace-io/millrace/internal/connlimit"
	"github.com/millrace-io/millrace/schemas/stream"
)

// EnvListen is the setting that errors about the address name.
const EnvListen = "MILLRACE_NATS_LISTEN"

// Config describes the server.
type Config struct {
	Listen   string // host:port; default 127.0.0.1:4222; port 0 takes a free one
	StoreDir string // folder of the streams; required, made when missing

	// SyncInterval is how often written messages are synced to disk. Default 0:
	// always, before they are acknowledged.
	SyncInterval time.Duration

	// MaxConnections bounds clients; default an eighth of the files that the
	// process may have open, which its streams need too, and 65,536 at most. One role
	// may have three quarters of them.
	MaxConnections int

	// User and Password are the login of Millrace itself, and nobody gets in
	// without a login. Default none, which loopback alone allows: Millrace has a
	// generated key, and who has no login is a producer and a worker.
	User, Password string

	// Passwords are those of roles that log in by their name and a password, in
	// the place of a generated key; Millrace has User and Password.
	Passwords map[string]string
}

// options checks the configuration and turns it into the server's.
func (c Config) options() (*server.Options, error) {
	if c.StoreDir == "" {
		return nil, errors.New("embedded NATS: no folder for its streams is given")
	}
	host, port, err := c.address()
	if err != nil {
		return nil, err
	}
	if (c.User == "") != (c.Password == "") {
		return nil, errors.New("embedded NATS: user and password go together")
	}
	if c.User == "" && !loopback(host) {
		return nil, fmt.Errorf(
			"embedded NATS: %s=%s is open to other machines: give it a user and a password, or listen on 127.0.0.1",
			EnvListen, c.Listen,
		)
	}
	port = cmp.Or(port, server.RANDOM_PORT)
	opts := &server.Options{
		ServerName: "millrace", Host: host, Port: port,
		MaxPayload: 8 << 20, MaxConn: cmp.Or(c.MaxConnections, connlimit.Share(1./8, stream.DefaultConnections)),
		JetStream: true, StoreDir: c.StoreDir,
		JetStreamMaxMemory: 256 << 20, // bytes of all streams in memory
		JetStreamMaxStore:  1 << 62,   // the disk is the bound
		SyncAlways:         c.SyncInterval == 0, SyncInterval: c.SyncInterval,
		NoSigs: true, // signals belong to the program around it
		NoLog:  true, // its own log; see logger
	}
	return opts, nil
}

func (c Config) address() (host string, port int, err error) {
	listen := cmp.Or(c.Listen, "127.0.0.1:4222")
	host, number, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("embedded NATS: %s=%s is not host:port: %w", EnvListen, listen, err)
	}
	port, err = strconv.Atoi(number)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("embedded NATS: %s=%s has no valid port", EnvListen, listen)
	}
	return cmp.Or(host, "0.0.0.0"), port, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
