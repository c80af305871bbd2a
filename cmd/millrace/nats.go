package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	embeddednats "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/stream"
)

// natsLogin says who is on a connection to NATS where its URL does not.
type natsLogin struct {
	Creds string `help:"File of credentials (.creds)." env:"MILLRACE_NATS_CREDS" name:"nats-creds" placeholder:"FILE"`
	NKey  string `help:"File with the seed of an NKey." env:"MILLRACE_NATS_NKEY" name:"nats-nkey" placeholder:"FILE"`
	CA    string `help:"Certificates of authorities to trust, for TLS." env:"MILLRACE_NATS_CA" name:"nats-ca" placeholder:"FILE"`
	Cert  string `help:"Client certificate for the NATS server." env:"MILLRACE_NATS_CERT" name:"nats-cert" placeholder:"FILE"`
	Key   string `help:"Key of the client certificate." env:"MILLRACE_NATS_KEY" name:"nats-key" placeholder:"FILE"`
}

// natsCommand is how a command reaches a server as Millrace.
type natsCommand struct {
	URL   string    `help:"URL of the NATS server." env:"MILLRACE_NATS_URL" name:"nats-url" default:"nats://127.0.0.1:4222"`
	Data  string    `help:"Folder for all data, where \"millrace up\" keeps its login on NATS." env:"MILLRACE_DATA" default:"./data"`
	Login natsLogin `embed:""`
}

func (c natsCommand) connect(p *program) (*nats.Conn, error) {
	return c.Login.connect(p.ctx, c.URL, c.Data, p.log)
}

// jetStream connects, and does something with JetStream. An error of its own begins with what is done.
func (c natsCommand) jetStream(p *program, what string, do func(jetstream.JetStream) error) error {
	nc, err := c.connect(p)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return do(js)
}

// checkpoints does something with the checkpoints of slot groups.
func (c natsCommand) checkpoints(p *program, what string, do func(jetstream.KeyValue) error) error {
	return c.jetStream(p, what, func(js jetstream.JetStream) error {
		kv, err := js.KeyValue(p.ctx, stream.Checkpoints)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			return assignment.ErrNoLayout
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return do(kv)
	})
}

// connect connects with the login, or, to a server on this machine, with the
// one that the embedded server has generated in the data folder.
func (l natsLogin) connect(ctx context.Context, address, data string, log *slog.Logger,
	options ...nats.Option,
) (*nats.Conn, error) {
	login, err := client.Login(l).Options()
	if err != nil {
		return nil, err
	}
	if l.Creds == "" && l.NKey == "" && nameless(address) {
		for _, key := range generatedKeys(data) {
			generated, err := nats.NkeyOptionFromSeed(key)
			if err != nil {
				return nil, fmt.Errorf("connect to NATS: %s: %w", key, err)
			}
			nc, err := connect(ctx, address, log, append(append([]nats.Option{generated}, login...), options...)...)
			switch {
			case errors.Is(err, nats.ErrAuthorization): // by another installation's server
			case !errors.Is(err, nats.ErrNkeysNotSupported): // by a server that has no logins at all
				return nc, err
			}
		}
	}
	return connect(ctx, address, log, append(login, options...)...)
}

// generatedKeys are the files with Millrace's key of the embedded server that
// keeps its data in a folder, and of the demonstration's below it.
func generatedKeys(data string) (files []string) {
	for _, folder := range []string{data, filepath.Join(data, demoFolder)} {
		if key := embeddednats.KeyFile(filepath.Join(folder, "nats"), stream.RoleMillrace); readable(key) {
			files = append(files, key)
		}
	}
	return files
}

// nameless tells whether an address is on this machine and has no login.
func nameless(address string) bool {
	for one := range strings.SplitSeq(address, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.User != nil || !loopback(u.Host) {
			return false
		}
	}
	return true
}

func readable(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// shownAddress is an address without its password.
func shownAddress(address string) string {
	if address == "" {
		return "its place in this process"
	}
	all := strings.Split(address, ",")
	for i, one := range all {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return "the address of MILLRACE_NATS_URL" // its text may hold a password
		}
		all[i] = u.Redacted()
	}
	return strings.Join(all, ",")
}

// tellAway says whom a command waits for, and for how long.
func tellAway(log *slog.Logger, address string, most time.Duration, reason error) {
	args := []any{"address", shownAddress(address), "at_most", "for ever"}
	if most > 0 {
		args[3] = most.String()
	}
	if reason != nil {
		args = append(args, "error", reason)
	}
	log.Warn("NATS does not answer; waiting for it", args...)
}

// await waits until a connection is made, for so long at most; 0: for ever.
func await(ctx context.Context, nc *nats.Conn, address string, most time.Duration) error {
	changed := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(changed)
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	for {
		switch {
		case nc.IsConnected():
			return nil
		case nc.IsClosed():
			return fmt.Errorf("connect to NATS at %s: %w", shownAddress(address), nc.LastError())
		}
		select {
		case <-changed:
		case <-over:
			return fmt.Errorf("NATS at %s has not answered for %s: start it, or name another by MILLRACE_NATS_URL",
				shownAddress(address), most)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// connect makes the connection that all roles use. It is not bounded by its
// buffer: what can't be sent is an error at once.
func connect(ctx context.Context, address string, log *slog.Logger, options ...nats.Option) (*nats.Conn, error) {
	options = append(options,
		nats.Name("millrace"), nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.Timeout(5*time.Second),
		// A server that has gone without a word is left after 15 s at most.
		nats.PingInterval(5*time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost", "address", shownAddress(address), "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS again") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { report(log, err) }),
	)
	nc, err := nats.Connect(address, options...)
	if bad := new(url.Error); errors.As(err, &bad) {
		// It quotes the address, and with it the password, in part even as its cause.
		return nil, errors.New("connect to NATS: MILLRACE_NATS_URL is not a URL: characters of a password such as / " +
			"and % have to be escaped")
	}
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", shownAddress(address), err)
	}
	return nc, ctx.Err()
}

// report logs what the server says of a connection, beside any answer.
func report(log *slog.Logger, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		log.Error("NATS refuses this login: log in as Millrace, by MILLRACE_NATS_URL, MILLRACE_NATS_NKEY or "+
			"MILLRACE_NATS_CREDS", "error", err)
		return
	}
	log.Warn("NATS reports", "error", err)
}

// publisher returns the publisher of an outbox. The key is that of its advisory lock.
func (n *node) publisher(key int64, of *outbox.Outbox) (*outbox.Publisher, error) {
	return outbox.NewPublisher(outbox.Config{Key: key}, of, outbox.Deps{
		NATS: n.nats, Postgres: n.database.pool, Registry: n.registry, Log: n.log, Acked: n.acked(),
	})
}
