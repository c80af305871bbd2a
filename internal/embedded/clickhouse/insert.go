package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// exactInserts go behind a client's own settings of an insert, so that its rows
// are written when it is answered and form one block, which
// insert_deduplication_token then names.
const exactInserts = "async_insert = 0"

// insertFile makes the statement that inserts the rows of the file at path.
//
// FROM INFILE makes it an ordinary insert, unlike INSERT … SELECT: defaults are
// computed, and blocks and tokens are deduplicated as they are on a server.
func insertFile(in *statement.Insert, path, format string, set settings) (statement.Statement, error) {
	clauses := []string{}
	if in.Settings != "" {
		clauses = append(clauses, in.Settings)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !identifier.MatchString(name) {
			return statement.Statement{}, exception(codeUnknownSetting, "UNKNOWN_SETTING", "Unknown setting '%s'", name)
		}
		clauses = append(clauses, name+" = "+quote(set[name]))
	}
	clauses = append(clauses, exactInserts)
	text := in.Head + "\nFROM INFILE " + quote(path) + " SETTINGS " + strings.Join(clauses, ", ") + " FORMAT " + format
	return statement.Statement{Verb: "INSERT", Text: text}, nil
}

// insertColumns asks what an insert's rows consist of. It is asked for every
// insert, in less than a millisecond: a remembered answer could be wrong after
// an ALTER.
func insertColumns(ctx context.Context, s session, in *statement.Insert, params []chdb.Param) ([]native.Column, error) {
	if simple := simpleColumns(in.Columns); in.Columns == "" || simple != nil {
		all, err := describe(ctx, s, "DESCRIBE TABLE "+in.Table, params)
		if err != nil || simple == nil {
			return insertable(all), err
		}
		return pick(all, simple, in.Table)
	}
	columns, err := describe(ctx, s, "DESCRIBE TABLE (SELECT "+in.Columns+" FROM "+in.Table+")", params)
	return insertable(columns), err
}

// described is a column with the kind of its default.
type described struct {
	native.Column
	defaultKind string
}

func describe(ctx context.Context, s session, text string, params []chdb.Param) (columns []described, err error) {
	q := query{Statement: statement.Statement{Verb: "DESCRIBE", Text: text}, format: "TSV", params: params}
	err = s.run(ctx, q, func(c chdb.Chunk) error {
		columns, err = readDescribed(c.Data)
		return err
	})
	return columns, err
}

func readDescribed(rows []byte) (columns []described, err error) {
	for line := range strings.Lines(string(rows)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) < 3 {
			return nil, fmt.Errorf("describe: %d fields", len(fields))
		}
		col := native.Column{Name: unescape(fields[0]), Type: plainType(unescape(fields[1]))}
		columns = append(columns, described{col, fields[2]})
	}
	return columns, nil
}

// resultColumns asks what the result of q will consist of.
func (e *engine) resultColumns(conn *chdb.Conn, q query, tag string) (columns []native.Column, err error) {
	rows, err := conn.Query("DESCRIBE TABLE ("+q.Text+"\n)\n"+tag, "TSV", q.params...)
	if err != nil {
		return nil, err
	}
	all, err := readDescribed(rows.Data)
	for _, c := range all {
		columns = append(columns, c.Column)
	}
	return columns, err
}

// insertable leaves out what is computed.
func insertable(all []described) (columns []native.Column) {
	for _, c := range all {
		switch c.defaultKind {
		case "MATERIALIZED", "ALIAS", "EPHEMERAL":
		default:
			columns = append(columns, c.Column)
		}
	}
	return columns
}

func pick(all []described, names []string, table string) (columns []native.Column, err error) {
	for _, name := range names {
		i := slices.IndexFunc(all, func(c described) bool { return c.Name == name })
		if i < 0 {
			return nil, exception(16, "NO_SUCH_COLUMN_IN_TABLE", "No such column %s in table %s", name, table)
		}
		columns = append(columns, all[i].Column)
	}
	return columns, nil
}

// simpleColumns splits a list of plain names; nil is any other list.
func simpleColumns(list string) (names []string) {
	for list = strings.TrimSpace(list); list != ""; {
		name, rest, ok := columnName(list)
		if !ok {
			return nil
		}
		names = append(names, name)
		rest = strings.TrimSpace(rest)
		if rest == "" {
			return names
		}
		if rest[0] != ',' {
			return nil
		}
		list = strings.TrimSpace(rest[1:])
	}
	return names
}

func columnName(s string) (name, rest string, ok bool) {
	if q := s[0]; q == '`' || q == '"' {
		for i := 1; i < len(s); i++ {
			if s[i] == '\\' {
				return "", "", false
			}
			if s[i] == q {
				return s[1:i], s[i+1:], true
			}
		}
		return "", "", false
	}
	i := strings.IndexAny(s, ", \t\r\n")
	if i < 0 {
		i = len(s)
	}
	name = s[:i]
	for part := range strings.SplitSeq(name, ".") {
		if !identifier.MatchString(part) {
			return "", "", false
		}
	}
	return name, s[i:], true
}

var tsvEscapes = strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\r`, "\r", `\'`, `'`, `\b`, "\b", `\f`, "\f",
	`\0`, "\x00")

// unescape reads a value of a TSV result.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return tsvEscapes.Replace(s)
}
