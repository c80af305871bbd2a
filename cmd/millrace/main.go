// Command millrace counts what happens to pieces of work, each thing exactly
// once, and serves live views of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is set by the linker.
var version = "dev"

// Exit statuses.
const (
	statusFailed = 1
	statusUsage  = 2
	statusGap    = 3 // of reconcile alone
)

// statusError is an error with an exit status of its own.
type statusError struct {
	error
	status int
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// program is what commands work with beside their flags.
type program struct {
	ctx    context.Context // ends with the first SIGINT or SIGTERM
	hurry  context.Context // ends with the second
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	log    *slog.Logger
}

func run(args []string, in io.Reader, out, errOut io.Writer) int {
	var cli cli
	parser, err := newParser(&cli, out, errOut)
	if err != nil {
		fmt.Fprintln(errOut, "millrace:", err)
		return statusFailed
	}
	command, err := parser.Parse(args)
	if err != nil {
		return usage(err, errOut)
	}
	ctx, hurry, stop := signals()
	defer stop()
	p := &program{ctx: ctx, hurry: hurry, in: in, out: out, errOut: errOut, log: newLogger(cli.Log, errOut)}
	if err := command.Run(p); err != nil {
		fmt.Fprintln(errOut, "millrace:", err)
		if own := new(statusError); errors.As(err, &own) {
			return own.status
		}
		return statusFailed
	}
	return 0
}

func usage(err error, errOut io.Writer) int {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Command() != "" {
		fmt.Fprintf(errOut, "millrace: %v\nRun \"millrace %s --help\" for its settings.\n", err, parse.Context.Command())
		return statusUsage
	}
	fmt.Fprintf(errOut, "millrace: %v\nRun \"millrace --help\" for the commands.\n", err)
	return statusUsage
}

// signals returns a context that ends with the first signal to stop, and one
// that ends with the second.
func signals() (ctx, hurry context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	hurry, cancelHurry := context.WithCancel(context.Background())
	received := make(chan os.Signal, 2)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-received
		cancel()
		<-received
		cancelHurry()
	}()
	return ctx, hurry, func() { signal.Stop(received); cancel(); cancelHurry() }
}
