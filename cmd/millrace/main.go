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

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
	"github.com/millrace-io/millrace/internal/embedded/confine"
)

// Exit statuses.
const (
	statusFailed = 1
	statusUsage  = 2
	// Of emit: lines were rejected; of reconcile: there are gaps; of jobs audit: something was missed.
	statusPartial = 3
	statusStuck   = 4   // of clickhouse alone: its engine does not end a statement
	statusSignal  = 128 // and the signal's number
)

// statusError is an error with an exit status of its own.
type statusError struct {
	error
	status int
}

func main() {
	confine.RunStage(os.Args)
	death := confine.LeaveFirstThread()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, death))
}

// program is what commands work with beside their flags.
type program struct {
	ctx    context.Context // ends with the first SIGINT or SIGTERM
	hurry  context.Context // ends with the second
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	log    *slog.Logger

	logging logSettings
	death   syscall.Signal // that the parent wants this process to get at its own death
}

// console is what commands work with that ask an installation over HTTP.
func (p *program) console() *console.Console {
	return &console.Console{Ctx: p.ctx, In: p.in, Out: p.out, Err: p.errOut}
}

func run(args []string, in io.Reader, out, errOut io.Writer, death syscall.Signal) int {
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
	p := &program{
		ctx: ctx, hurry: hurry, in: in, out: out, errOut: errOut, log: newLogger(cli.Log, errOut),
		logging: cli.Log, death: death,
	}
	if err := p.interrupted(command.Run(p, p.console()), ""); err != nil {
		fmt.Fprintln(errOut, "millrace:", console.Plain(err.Error()))
		if own := new(statusError); errors.As(err, &own) {
			return own.status
		}
		if errors.As(err, new(*console.PartialError)) {
			return statusPartial
		}
		if errors.As(err, new(*console.UsageError)) {
			return statusUsage
		}
		return statusFailed
	}
	return 0
}

// againCountsOnce is the advice of commands that publish events.
const againCountsOnce = "run it again, each event counts once"

// interrupted returns what a command says that a signal has ended, in place of
// its error, and any other error as it is.
func (p *program) interrupted(err error, advice string) error {
	by := new(signalled)
	if !errors.Is(err, context.Canceled) || !errors.As(context.Cause(p.ctx), &by) || errors.As(err, new(*statusError)) {
		return err
	}
	text := "interrupted"
	if advice != "" {
		text += "; " + advice
	}
	return &statusError{errors.New(text), statusSignal + int(by.Signal)}
}

// signalled is why the context of a program has ended.
type signalled struct{ syscall.Signal }

func (s *signalled) Error() string { return s.Signal.String() }

// Unwrap has it be what any other cancelled context ends with.
func (s *signalled) Unwrap() error { return context.Canceled }

func usage(err error, errOut io.Writer) int {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Command() != "" {
		fmt.Fprintf(errOut, "millrace: %v\nRun \"millrace %s --help\" for its settings.\n", err,
			parse.Context.Command())
		return statusUsage
	}
	fmt.Fprintf(errOut, "millrace: %v\nRun \"millrace --help\" for the commands.\n", err)
	return statusUsage
}

// signals returns a context that ends with the first signal to stop, and one
// that ends with the second.
func signals() (ctx, hurry context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	hurry, cancelHurry := context.WithCancel(context.Background())
	received := make(chan os.Signal, 2)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-received
		cancel(&signalled{first.(syscall.Signal)})
		<-received
		cancelHurry()
	}()
	return ctx, hurry, func() { signal.Stop(received); cancel(nil); cancelHurry() }
}
