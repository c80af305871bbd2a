package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// readerSession is an analyst's session. Each query runs in a fresh session of
// the engine: there readonly = 1 is set last, behind the client's settings,
// which it freezes.
type readerSession struct {
	engine   *engine
	reads    chan struct{} // has room while another query may run
	database string
	settings settings // by SET
	limits   map[string]uint64
}

// Limits of one query of the read-only login. A client may lower them.
const (
	readerSeconds     = 120
	readerResultRows  = 20_000_000
	readerResultBytes = 4 << 30
	readerPatience    = 10 * time.Second
)

func (s *Server) openReader(database string) (session, error) {
	r := &readerSession{engine: s.engine, reads: s.reads, database: s.cfg.Database, settings: settings{}, limits: map[string]uint64{
		"max_execution_time": readerSeconds,
		"max_memory_usage":   uint64(s.cfg.MaxMemory / 2),
		"max_result_rows":    readerResultRows,
		"max_result_bytes":   readerResultBytes,
	}}
	if database == "" {
		return r, nil
	}
	return r, r.use(database)
}

func (r *readerSession) close()       {}
func (r *readerSession) writes() bool { return false }

func errReadOnly() error {
	return exception(codeReadOnly, "READONLY", "Cannot execute query in readonly mode")
}

func (r *readerSession) run(ctx context.Context, q query, emit func(chdb.Chunk) error) error {
	if q.Insert != nil {
		return errReadOnly()
	}
	done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	conn, err := r.engine.connect(r.database)
	if err != nil {
		return err
	}
	defer conn.Close()
	root, err := r.engine.vet(conn, &q)
	if err != nil {
		return err
	}
	switch root {
	case "Set":
		return r.set(q.Text)
	case "UseQuery":
		return r.use(useTarget(q.Text))
	}
	want := maps.Clone(r.settings)
	maps.Copy(want, q.settings)
	if err := r.limit(conn, want); err != nil {
		return err
	}
	return execute(ctx, r.engine, conn, q, emit)
}

// begin waits until another query may run.
func (r *readerSession) begin(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, readerPatience)
	defer cancel()
	select {
	case r.reads <- struct{}{}:
		return func() { <-r.reads }, nil
	case <-ctx.Done():
		return nil, exception(codeTooMany, "TOO_MANY_SIMULTANEOUS_QUERIES", "Too many simultaneous queries: %d run", cap(r.reads))
	}
}

// use changes the database. The engine's own are refused: a table of "default"
// can be any file of the machine.
func (r *readerSession) use(database string) error {
	if forbiddenDatabase(database) || database == "system" {
		return exception(codeAccessDenied, "ACCESS_DENIED", "Not enough privileges to use database %s", database)
	}
	conn, err := r.engine.connect(database)
	if err != nil {
		return err
	}
	conn.Close()
	r.database = database
	return nil
}

// useTarget reads the database of a statement that the engine wrote.
func useTarget(text string) string {
	name := strings.TrimSpace(strings.TrimPrefix(text, "USE"))
	return strings.Trim(name, "`")
}

func (r *readerSession) set(text string) error {
	set, err := statement.ParseSet(text)
	if err != nil {
		return exception(codeReadOnly, "READONLY", "Cannot read settings: %v", err)
	}
	for name := range set {
		if !r.mayChange(name) {
			return cannotModify(name)
		}
	}
	maps.Copy(r.settings, set)
	return nil
}

func cannotModify(name string) error {
	return exception(codeReadOnly, "READONLY", "Cannot modify '%s' setting in readonly mode", name)
}

func (r *readerSession) mayChange(name string) bool {
	_, limited := r.limits[name]
	return limited || readerSettings[name]
}

// limit applies want and the limits, and freezes them.
func (r *readerSession) limit(conn *chdb.Conn, want settings) error {
	set := maps.Clone(want)
	delete(set, "readonly") // drivers ask for what is so already
	for name := range set {
		if !r.mayChange(name) {
			return cannotModify(name)
		}
	}
	for name, most := range r.limits {
		if asked, err := strconv.ParseUint(set[name], 10, 64); err != nil || asked == 0 || asked > most {
			set[name] = strconv.FormatUint(most, 10)
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, name+" = "+quote(set[name]))
	}
	for _, sql := range []string{"SET " + strings.Join(list, ", "), "SET readonly = 1"} {
		if err := conn.Exec(sql); err != nil {
			return fmt.Errorf("limit the session: %w", err)
		}
	}
	return nil
}

// readerSettings are those that an analyst may change besides the limits. None
// of them names a file, an address or a program.
var readerSettings = map[string]bool{
	"readonly":                                   true,
	"aggregate_functions_null_for_empty":         true,
	"cast_keep_nullable":                         true,
	"date_time_input_format":                     true,
	"date_time_output_format":                    true,
	"distinct_overflow_mode":                     true,
	"extremes":                                   true,
	"final":                                      true,
	"format_csv_delimiter":                       true,
	"group_by_overflow_mode":                     true,
	"group_by_use_nulls":                         true,
	"join_algorithm":                             true,
	"join_default_strictness":                    true,
	"join_use_nulls":                             true,
	"log_comment":                                true,
	"low_cardinality_allow_in_native_format":     true,
	"max_block_size":                             true,
	"max_bytes_to_read":                          true,
	"max_rows_to_group_by":                       true,
	"max_rows_to_read":                           true,
	"max_threads":                                true,
	"output_format_csv_crlf_end_of_line":         true,
	"output_format_decimal_trailing_zeros":       true,
	"output_format_json_array_of_rows":           true,
	"output_format_json_escape_forward_slashes":  true,
	"output_format_json_named_tuples_as_objects": true,
	"output_format_json_quote_64bit_floats":      true,
	"output_format_json_quote_64bit_integers":    true,
	"output_format_json_quote_decimals":          true,
	"output_format_json_quote_denormals":         true,
	"output_format_native_write_json_as_string":  true,
	"output_format_pretty_color":                 true,
	"output_format_pretty_max_rows":              true,
	"output_format_pretty_row_numbers":           true,
	"output_format_write_statistics":             true,
	"prefer_column_name_to_alias":                true,
	"read_overflow_mode":                         true,
	"result_overflow_mode":                       true,
	"session_timezone":                           true,
	"timeout_overflow_mode":                      true,
	"transform_null_in":                          true,
	"union_default_mode":                         true,
}
