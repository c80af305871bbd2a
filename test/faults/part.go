package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/millrace-io/millrace/internal/embedded/engines"
	"github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/internal/embedded/postgres"
	"github.com/millrace-io/millrace/schemas/stream"
)

// envPart makes this program run one part of the installation: the NATS server
// or the Postgres that "millrace up" embeds, in a process that can be killed by
// itself.
const (
	envPart   = "MILLRACE_FAULTS_PART"
	envListen = "MILLRACE_FAULTS_LISTEN"
	envStore  = "MILLRACE_FAULTS_STORE"
	envName   = "MILLRACE_FAULTS_NAME"   // of a NATS node
	envRoutes = "MILLRACE_FAULTS_ROUTES" // where it listens for others, where it tells them to connect, and the others
)

// chPassword is that of ClickHouse's login default, also in test/peers.
const chPassword = "faults"

func runPart(errOut io.Writer) int {
	part, err := newPart(slog.New(slog.NewJSONHandler(errOut, nil)))
	if err == nil {
		err = part.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	return 0
}

func newPart(log *slog.Logger) (interface{ Run(context.Context) error }, error) {
	listen, store := os.Getenv(envListen), os.Getenv(envStore)
	switch part := os.Getenv(envPart); part {
	case "nats":
		// Without a SyncInterval each message is synced before it is acknowledged.
		return nats.New(nats.Config{
			Listen: listen, StoreDir: store, User: stream.RoleMillrace, Password: password,
			Passwords: passwords(),
		}, log)
	case "peer":
		return newPeer()
	case "worker":
		return newWorkerPart()
	case "node":
		return newNode(listen, store)
	case "clock":
		return dial{}, nil
	case "postgres":
		engine, err := engines.Postgres()
		if err != nil {
			return nil, err
		}
		return postgres.New(postgres.Config{Engine: engine, Dir: store, Listen: listen}, log)
	default:
		return nil, fmt.Errorf("there is no part %q", part)
	}
}
