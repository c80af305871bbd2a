package postgres

import (
	"context"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
)

// answers is the probe: it succeeds when Millrace's role can use the database.
func (s *Server) answers(ctx context.Context, password string) error {
	conn, err := pgx.Connect(ctx, s.url(password, s.config.Database))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// parseLine turns a line of Postgres' log into one of ours. Errors of statements
// are for those who have sent them, who get them too.
func parseLine(line string) (slog.Level, string) {
	severity, message, found := strings.Cut(line, ":  ")
	if strings.Contains(line, " total in ") || strings.HasPrefix(line, "Grand total: ") {
		return slog.LevelDebug, line // what a session held that was refused more memory
	}
	if !found {
		return slog.LevelInfo, line
	}
	switch severity {
	case "PANIC":
		return slog.LevelError, message
	case "WARNING":
		return slog.LevelWarn, message
	case "FATAL":
		if strings.HasPrefix(message, "the database system is ") ||
			strings.HasPrefix(message, "terminating connection ") {
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
