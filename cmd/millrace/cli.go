package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/lmittmann/tint"
	"gopkg.in/yaml.v3"

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
)

type cli struct {
	Config kong.ConfigFlag `help:"Configuration file (YAML). A key is a flag's name without dashes in front." env:"MILLRACE_CONFIG" placeholder:"FILE"`
	Log    logSettings     `embed:"" prefix:"log-"`
	About  versionFlag     `help:"Print the version." name:"version"`

	Up         upCmd                 `cmd:"" help:"Run everything in one process tree: engines, ingest, projector, query, page."`
	Serve      serveCmd              `cmd:"" help:"Run some roles against shared servers."`
	Status     console.StatusCmd     `cmd:"" help:"Say what a running installation does: parts, lag, rates, queues, dead letters. Exits with status 1 when a part does not work."`
	Top        console.TopCmd        `cmd:"" help:"Show the same live in the terminal."`
	Funnel     console.FunnelCmd     `cmd:"" help:"Print how many events and articles have reached each stage."`
	Events     console.EventsCmd     `cmd:"" help:"Print events, the newest first, or follow them."`
	Queues     console.QueuesCmd     `cmd:"" help:"List, pause, resume and limit work queues; retry and cancel their items."`
	Files      console.FilesCmd      `cmd:"" help:"List, show, cancel and retry files of shards."`
	Sources    console.SourcesCmd    `cmd:"" help:"List, import and export the sources that are crawled."`
	Batches    console.BatchesCmd    `cmd:"" help:"Show which messages about batches are taken, and change that; bring stored batches up to date with the rules."`
	Jobs       console.JobsCmd       `cmd:"" help:"List jobs, compare them with their sources, and audit whether they have run when their schedules say."`
	Clickhouse clickhouseCmd         `cmd:"" help:"Run the embedded ClickHouse server alone."`
	Migrate    migrateCmd            `cmd:"" help:"Bring the streams and tables of shared servers up to date."`
	Emit       emitCmd               `cmd:"" help:"Publish events from a file of JSON lines."`
	Backfill   backfillCmd           `cmd:"" help:"Publish what services recorded before they emitted events, from their databases."`
	Reconcile  reconcileCmd          `cmd:"" help:"Compare what Millrace has counted with what services recorded, and replay what is missing."`
	DLQ        dlqCmd                `cmd:"" name:"dlq" help:"List, show, replay or purge dead letters: messages that could not be processed."`
	Accept     acceptCmd             `cmd:"" name:"accept-identities" help:"Accept what ClickHouse has as all that a slot group has counted."`
	AcceptLoss acceptLossCmd         `cmd:"" name:"accept-loss" help:"Accept what a NATS stream was found to have lost, so that the installation counts as well again."`
	Regroup    regroupCmd            `cmd:"" help:"Change how many projectors may share the work of a running installation."`
	Backup     backupCmd             `cmd:"" help:"Take a backup of a running installation: streams, buckets, tables and files, as of one moment."`
	Restore    restoreCmd            `cmd:"" help:"Make an installation of a backup, in an empty data folder or on empty servers."`
	Refold     refoldCmd             `cmd:"" help:"Make ClickHouse anew of an older backup, while nothing runs, and have projectors fold what has come since again."`
	Engines    enginesCmd            `cmd:"" help:"Install the embedded engines (needs npm)."`
	Health     healthCmd             `cmd:"" help:"Ask a server on this machine whether it is ready."`
	Token      tokenCmd              `cmd:"" help:"Mint a token for callers of the HTTP server."`
	Completion console.CompletionCmd `cmd:"" help:"Print what a shell needs to complete commands and flags."`
	Version    versionCmd            `cmd:"" help:"Print the version, the commit, and the version of Go."`
}

type logSettings struct {
	Level  slog.Level `help:"Least level to log: debug, info, warn or error." env:"MILLRACE_LOG_LEVEL" default:"info"`
	Format string     `help:"Log format: text, json, or auto for text on a terminal." env:"MILLRACE_LOG_FORMAT" enum:"auto,text,json" default:"auto"`
}

const description = `Counts what happens to pieces of work, each thing exactly once, and serves live views of it.

Every setting is a flag, the environment variable shown beside it, and a key of the configuration file under the flag's name. A flag wins over the environment, and that over the file.`

func newParser(cli *cli, out, errOut io.Writer) (*kong.Kong, error) {
	var parser *kong.Kong
	parser, err := kong.New(cli,
		kong.Name("millrace"), kong.Description(description), kong.UsageOnError(), kong.Writers(out, errOut),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true}),
		kong.ValueFormatter(helpOf),
		kong.Configuration(func(r io.Reader) (kong.Resolver, error) { return readConfig(r, parser.Model) }),
	)
	return parser, err
}

// helpOf names all three ways to set a flag.
func helpOf(v *kong.Value) string {
	if v.Flag == nil || len(v.Flag.Envs) == 0 {
		return v.Help
	}
	return fmt.Sprintf("%s [$%s, %s:]", v.Help, v.Flag.Envs[0], v.Flag.Name)
}

// readConfig reads a configuration file, in which every key has to be a
// setting of some command.
func readConfig(r io.Reader, model *kong.Application) (kong.Resolver, error) {
	values := map[string]any{}
	if err := yaml.NewDecoder(r).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	known := map[string]bool{}
	err := kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			known[f.Name] = true
		}
		return next(nil)
	})
	if err != nil {
		return nil, err
	}
	var unknown []string
	for key := range values {
		if !known[key] {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, fmt.Errorf("configuration file: no such setting: %s", strings.Join(unknown, ", "))
	}
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		// kong would have the file win over the environment.
		for _, env := range flag.Envs {
			if _, set := os.LookupEnv(env); set {
				return nil, nil
			}
		}
		return values[flag.Name], nil
	}), nil
}

func newLogger(s logSettings, w io.Writer) *slog.Logger {
	terminal := console.IsTerminal(w)
	if s.Format == "json" || (s.Format == "auto" && !terminal) {
		return slog.New(traceHandler{Handler: slog.NewJSONHandler(w,
			&slog.HandlerOptions{Level: s.Level, ReplaceAttr: durationsInWords})})
	}
	return slog.New(traceHandler{Handler: tint.NewTextHandler(w, &tint.Options{
		Level: s.Level, NoColor: !terminal,
		TimeFormat: "15:04:05.000",
	})})
}

// durationsInWords writes durations with their unit, as the text format does.
func durationsInWords(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
