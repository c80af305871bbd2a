package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/judge"
)

// vet admits an analyst's statement, and makes q the text that was judged: the
// engine's own parser writes the statement anew, as one and without comments, and
// package judge reads that text and its syntax tree. readonly = 1 stands behind
// this as the engine's own check, and the confinement of the process behind both.
func (e *engine) vet(ctx context.Context, conn *chdb.Conn, q *query) (root string, err error) {
	if !judge.Reads(q.Verb) {
		return "", errReadOnly()
	}
	for _, format := range []string{q.format, q.Format} {
		if err := e.rules.Format(format); err != nil && format != "" {
			return "", e.denied(err)
		}
	}
	text, err := e.ask(ctx, conn, "SELECT formatQuerySingleLine("+quote(q.Text)+")", "TSVRaw")
	if err != nil {
		return "", err
	}
	q.Text = strings.TrimSuffix(string(text.Data), "\n")
	made, err := e.madeFunctions()
	if err != nil {
		return "", err
	}
	found, err := e.rules.Text(judge.Statement{Text: q.Text, Params: paramValues(q.params), Functions: made})
	if err != nil {
		return "", e.denied(err)
	}
	printed, err := e.ask(ctx, conn, "EXPLAIN AST "+q.Text, "TSV", q.params...)
	if err != nil {
		return "", err
	}
	tree, err := e.rules.Tree(string(printed.Data), found)
	if err != nil {
		return "", e.denied(err)
	}
	for _, t := range append(found.Tables, tree.Tables...) {
		if err := e.vetTable(conn, t); err != nil {
			return "", err
		}
	}
	return tree.Root, nil
}

func paramValues(params []chdb.Param) map[string]string {
	values := map[string]string{}
	for _, p := range params {
		values[p.Name] = p.Value
	}
	return values
}

// vetTable admits tables of databases that the engine keeps itself; others can
// stand for files or for other servers.
func (e *engine) vetTable(conn *chdb.Conn, t judge.Table) error {
	known, err := e.rules.Known(t)
	if known || err != nil {
		return e.denied(err)
	}
	row, err := conn.Query("SELECT engine FROM system.databases WHERE name = "+quote(t.Database), "TSV")
	if err != nil {
		return fmt.Errorf("ask for the engine of database %s: %w", t.Database, err)
	}
	if kind := strings.TrimSpace(string(row.Data)); kind != "" && kind != "Atomic" {
		return e.denied(&judge.Refusal{What: "database " + t.Database})
	}
	return nil
}

// vetDatabase admits the current database of a session.
func (e *engine) vetDatabase(conn *chdb.Conn, name string) error {
	if name == "system" {
		return e.denied(&judge.Refusal{What: "the use of database system", Hint: "write system.tables and the like"})
	}
	return e.vetTable(conn, judge.Table{Database: name})
}

// madeFunctions are the names of functions that were made by CREATE FUNCTION. The
// engine has a file of each, and reads all of its documentation to list them.
func (e *engine) madeFunctions() ([]string, error) {
	files, err := os.ReadDir(filepath.Join(e.path, "user_defined"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list functions that were made: %w", err)
	}
	var names []string
	for _, f := range files {
		name := strings.TrimPrefix(f.Name(), "function_")
		name, err := url.PathUnescape(strings.TrimSuffix(name, ".sql"))
		if err != nil {
			return nil, fmt.Errorf("read the name of function %s: %w", f.Name(), err)
		}
		names = append(names, name)
	}
	return names, nil
}

// denied is err as analysts see it.
func (e *engine) denied(err error) error {
	var refusal *judge.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	message := fmt.Sprintf("Not enough privileges: %s is not allowed for the login %s", refusal.What, e.analyst)
	if refusal.Hint != "" {
		message += ": " + refusal.Hint
	}
	return exception(codeAccessDenied, "ACCESS_DENIED", "%s; docs/analysts.md lists what is", message)
}

// functionNames lists the engine's own functions.
func functionNames(conn *chdb.Conn) ([]string, error) {
	rows, err := conn.Query("SELECT name FROM system.functions WHERE origin = 'System'", "TSV")
	if err != nil {
		return nil, fmt.Errorf("list functions: %w", err)
	}
	return strings.Fields(string(rows.Data)), nil
}

func words(s string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(s) {
		set[w] = true
	}
	return set
}
