package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/millrace-io/millrace/internal/embedded/nats"
)

// envPart makes this program run one part of the installation: the NATS server
// that "millrace up" embeds, in a process that can be killed by itself.
const (
	envPart   = "MILLRACE_FAULTS_PART"
	envListen = "MILLRACE_FAULTS_LISTEN"
	envStore  = "MILLRACE_FAULTS_STORE"
)

func runPart(errOut io.Writer) int {
	// Without a SyncInterval each message is synced before it is acknowledged.
	srv, err := nats.New(nats.Config{Listen: os.Getenv(envListen), StoreDir: os.Getenv(envStore)},
		slog.New(slog.NewJSONHandler(errOut, nil)))
	if err == nil {
		err = srv.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	return 0
}
