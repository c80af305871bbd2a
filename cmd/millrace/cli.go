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
	"golang.org/x/term"
	"gopkg.in/yaml.v3"
)

type cli struct {
	Config kong.ConfigFlag `help:"Configuration file (YAML). A key is a flag's name without dashes in front." env:"MILLRACE_CONFIG" placeholder:"FILE"`
	Log    logSettings     `embed:"" prefix:"log-"`

	Up         upCmd         `cmd:"" help:"Run everything in one process tree: engines, ingest, projector, query, page."`
	Serve      serveCmd      `cmd:"" help:"Run some roles against shared servers."`
	Clickhouse clickhouseCmd `cmd:"" help:"Run the embedded ClickHouse server alone."`
	Migrate    migrateCmd    `cmd:"" help:"Bring the streams and tables of shared servers up to date."`
	Emit       emitCmd       `cmd:"" help:"Publish events from a file of JSON lines."`
	Backfill   backfillCmd   `cmd:"" help:"Publish what services recorded before they emitted events, from their databases."`
	Reconcile  reconcileCmd  `cmd:"" help:"Compare what Millrace has counted with what services recorded, and replay what is missing."`
	DLQ        dlqCmd        `cmd:"" name:"dlq" help:"List, show, replay or purge dead letters: messages that could not be processed."`
	Accept     acceptCmd     `cmd:"" name:"accept-identities" help:"Accept what ClickHouse has as all that a slot group has counted."`
	Regroup    regroupCmd    `cmd:"" help:"Change how many projectors may share the work of a running installation."`
	Engines    enginesCmd    `cmd:"" help:"Install the embedded engines (needs npm)."`
	Health     healthCmd     `cmd:"" help:"Ask a server on this machine whether it is ready."`
	Token      tokenCmd      `cmd:"" help:"Mint a token for callers of the HTTP server."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
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
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
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
	f, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	if s.Format == "json" || (s.Format == "auto" && !terminal) {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: s.Level}))
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{Level: s.Level, NoColor: !terminal, TimeFormat: "15:04:05.000"}))
}

type versionCmd struct{}

func (versionCmd) Run(p *program) error {
	_, err := fmt.Fprintln(p.out, "millrace", version)
	return err
}
