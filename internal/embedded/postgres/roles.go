package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/embedded/child"
)

// rolesVersion counts the changes of what prepareRoles does: a folder with
// another number is brought up to date.
const rolesVersion = "2"

//go:embed roles.sql
var rolesSQL string

//go:embed database.sql
var databaseSQL string

// prepareRoles makes the roles and the database, or brings those of an earlier
// release up to date, in single-user mode: no login of a superuser exists.
func (s *Server) prepareRoles(ctx context.Context, password string) error {
	want := rolesVersion
	if s.config.MakesDatabases {
		want += " makes databases"
	}
	has, err := os.ReadFile(s.config.rolesFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the version of its roles: %w", err)
	}
	if strings.TrimSpace(string(has)) == want {
		return nil
	}
	analyst, err := s.keptPassword(s.config.analystFile())
	if err != nil {
		return err
	}
	makes := "NOCREATEDB"
	if s.config.MakesDatabases {
		makes = "CREATEDB"
	}
	fill := strings.NewReplacer(
		":superuser", superuser, ":owner", ownRole, ":makes", makes, ":password", quote(password),
		":analyst_password", quote(analyst), ":settings", settingsSQL(), ":analyst", Analyst, ":readers", Readers,
		":database", pgx.Identifier{s.config.Database}.Sanitize(),
	)
	if err := s.single(ctx, superuser, fill.Replace(rolesSQL)); err != nil {
		return fmt.Errorf("make its roles: %w", err)
	}
	err = s.single(ctx, s.config.Database, fill.Replace(databaseSQL))
	if mentions(err, "does not exist") {
		if err := s.single(ctx, superuser, fill.Replace("CREATE DATABASE :database OWNER :owner;\n\n")); err != nil {
			return fmt.Errorf("make the database %s: %w", s.config.Database, err)
		}
		err = s.single(ctx, s.config.Database, fill.Replace(databaseSQL))
	}
	if err != nil {
		return fmt.Errorf("give the database %s to its roles: %w", s.config.Database, err)
	}
	if err := s.write(s.config.rolesFile(), want+"\n"); err != nil {
		return fmt.Errorf("write the version of its roles: %w", err)
	}
	return nil
}

// analystSettings are those that the login analyst begins with. It may change all but
// temp_file_limit; dbpool.Watchdog and limitMemory hold it to them.
var analystSettings = map[string]string{
	"default_transaction_read_only":       "on",
	"idle_in_transaction_session_timeout": "60s",
	"idle_session_timeout":                "10min",
	"search_path":                         "millrace",
	"statement_timeout":                   "60s",
	"temp_file_limit":                     "1GB",
	"transaction_timeout":                 "5min",
}

func settingsSQL() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(analystSettings)) {
		fmt.Fprintf(&b, "ALTER ROLE %s SET %s = %s;\n\n", Analyst, name, quote(analystSettings[name]))
	}
	return b.String()
}

// checkAnalyst finds out whether an analyst has changed the password or the settings of the
// login, as every role may. If so, the next start restores them.
func (s *Server) checkAnalyst(ctx context.Context) {
	changed, err := s.analystChanged(ctx)
	if err == nil && changed {
		s.log.Error("somebody has changed the password or the settings of the login analyst: restart to restore them")
		err = os.Remove(s.config.rolesFile())
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the login analyst was not checked", "error", err)
	}
}

func (s *Server) analystChanged(ctx context.Context) (bool, error) {
	password, err := s.keptPassword(s.config.analystFile())
	if err != nil {
		return false, err
	}
	cfg, err := pgx.ParseConfig(s.DSN())
	if err != nil {
		return false, err
	}
	cfg.User, cfg.Password = Analyst, password
	conn, err := pgx.ConnectConfig(ctx, cfg)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "28P01" { // invalid password
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var has []string
	if err := conn.QueryRow(ctx, "SELECT array_agg(c) FROM pg_db_role_setting, unnest(setconfig) AS c WHERE setrole = "+
		"current_user::regrole").Scan(&has); err != nil {
		return false, err
	}
	changed := len(has) != len(analystSettings)
	for _, setting := range has {
		name, value, _ := strings.Cut(setting, "=")
		changed = changed || analystSettings[name] != value
	}
	return changed, nil
}

// single runs statements, each of which ends in a semicolon and an empty line,
// in a database without a server. The superuser's database has its name.
func (s *Server) single(ctx context.Context, database, statements string) error {
	_, err := child.Exec(ctx, child.Config{
		Name: "postgres --single", Path: s.config.program("postgres"),
		Args: []string{
			"--single", "-j", "-D", s.config.data(), "-c", "exit_on_error=on", "-c", "log_min_error_statement=panic",
			"-c", "allow_system_table_mods=on", "-c", "log_checkpoints=off", database,
		},
		In: statements, Env: environment(), Dir: s.config.Dir, Attr: s.identity.attr,
	})
	return err
}

// quote makes a string literal.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
