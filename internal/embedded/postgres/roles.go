package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/embedded/child"
)

// rolesVersion counts the changes of what prepareRoles does: a folder with
// another number is brought up to date.
const rolesVersion = "1"

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
		":analyst_password", quote(analyst), ":analyst", Analyst, ":readers", Readers,
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
