package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
)

// answers is the probe: it succeeds when the database, which it makes if it is
// missing, can be used.
func (s *Server) answers(ctx context.Context, password string) error {
	conn, err := pgx.Connect(ctx, s.url(password, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var there bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", s.config.Database).Scan(&there)
	if err != nil {
		return fmt.Errorf("look for the database %s: %w", s.config.Database, err)
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{s.config.Database}.Sanitize()); err != nil {
		return fmt.Errorf("make the database %s: %w", s.config.Database, err)
	}
	return nil
}

// parseLine turns a line of Postgres' log into one of ours. Errors of statements
// are for those who have sent them, who get them too.
func parseLine(line string) (slog.Level, string) {
	severity, message, found := strings.Cut(line, ":  ")
	if !found {
		return slog.LevelInfo, line
	}
	switch severity {
	case "PANIC":
		return slog.LevelError, message
	case "WARNING":
		return slog.LevelWarn, message
	case "FATAL":
		if strings.HasPrefix(message, "the database system is ") || strings.HasPrefix(message, "terminating connection ") {
			return slog.LevelDebug, message // while it starts, stops or recovers
		}
		return slog.LevelWarn, message
	case "LOG", "ERROR", "INFO", "NOTICE", "DEBUG":
		return slog.LevelDebug, message
	default: // DETAIL, HINT, CONTEXT, STATEMENT: of the line before
		return slog.LevelDebug, line
	}
}

// telling keeps the lines that say why a server has ended.
func telling(lines []string) []string {
	var kept []string
	for _, l := range lines {
		if severity, _, _ := strings.Cut(l, ":"); severity != "LOG" {
			kept = append(kept, l)
		}
	}
	if kept == nil {
		return lines
	}
	return kept
}
