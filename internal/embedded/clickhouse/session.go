package clickhouse

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// Codes of ClickHouse for what is decided outside of the engine.
const (
	codeUnknownSetting = 115
	codeNotImplemented = 48
	codeSyntax         = 62
	codeReadOnly       = 164
	codeAccessDenied   = 497
	codeAuthentication = 516
	codeCancelled      = 394
	codeTooMany        = 202
)

func exception(code int, name, format string, args ...any) *chdb.Exception {
	return &chdb.Exception{Code: code, Name: name, Message: fmt.Sprintf(format, args...)}
}

// settings are a query's settings by name.
type settings map[string]string

// query is a statement to run.
type query struct {
	statement.Statement
	format   string
	file     string // where the engine writes the result, instead of returning it
	settings settings
	params   []chdb.Param
	limited  bool // as with HTTP's GET: the engine refuses all but reads
}

// outfile is the text of q with the file its result goes to.
func (q query) outfile() string {
	if q.file == "" {
		return q.Text
	}
	return q.Text + "\nINTO OUTFILE " + quote(q.file) + " TRUNCATE FORMAT " + q.format
}

// session is what a client has between its queries. One goroutine uses it.
type session interface {
	// run runs q; each chunk of its result is given to emit, whose error ends
	// the query. When ctx is done the query is cancelled.
	run(ctx context.Context, q query, emit func(chdb.Chunk) error) error
	writes() bool // whether it may insert
	close()
}

// account is what a login opens.
type account int

const (
	nobody account = iota
	writer
	reader
)

// login checks user and password in constant time.
func (s *Server) login(user, password string) (account, error) {
	same := func(a, b string) int {
		x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
		return subtle.ConstantTimeCompare(x[:], y[:])
	}
	write := same(user, s.cfg.User) & same(password, s.cfg.Password)
	read := same(user, s.cfg.ReadOnlyUser) & same(password, s.cfg.ReadOnlyPassword)
	switch {
	case write == 1:
		return writer, nil
	case read == 1:
		return reader, nil
	}
	return nobody, exception(codeAuthentication, "AUTHENTICATION_FAILED",
		"%s: Authentication failed: password is incorrect, or there is no user with such name.", user)
}

func (s *Server) openSession(who account, database string) (session, error) {
	if who == reader {
		return s.openReader(database)
	}
	conn, err := s.engine.connect(database)
	if err != nil {
		return nil, err
	}
	return &writerSession{engine: s.engine, conn: conn, applied: settings{}, before: settings{}}, nil
}

// writerSession is a session of the engine: what a client sets, creates and
// uses stays until it closes.
type writerSession struct {
	engine *engine
	conn   *chdb.Conn

	// A query's own settings are applied to the session and stay there for the
	// next query, which most often has the same; before is what they replaced.
	applied, before settings
}

func (s *writerSession) close()       { s.conn.Close() }
func (s *writerSession) writes() bool { return true }

func (s *writerSession) run(ctx context.Context, q query, emit func(chdb.Chunk) error) error {
	if q.Verb == "SET" {
		// What the client sets must not be undone after a query of its own.
		if err := s.apply(nil); err != nil {
			return err
		}
	} else if err := s.apply(q.settings); err != nil {
		return err
	}
	if q.limited {
		if err := s.conn.Exec("SET readonly = 2"); err != nil {
			return err
		}
	}
	return execute(ctx, s.engine, s.conn, q, emit)
}

// apply makes want the query settings of the session.
func (s *writerSession) apply(want settings) error {
	if maps.Equal(s.applied, want) {
		return nil
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(s.applied)) {
		if _, stays := want[name]; !stays {
			set = append(set, name+" = "+s.before[name])
		}
	}
	if err := s.remember(want); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, same := s.applied[name]; !same || value != want[name] {
			set = append(set, name+" = "+quote(want[name]))
		}
	}
	if len(set) == 0 {
		return nil
	}
	if err := s.conn.Exec("SET " + strings.Join(set, ", ")); err != nil {
		s.restore(want)
		return err
	}
	s.applied = maps.Clone(want)
	return nil
}

// restore undoes all query settings, one by one: a SET that failed may have set
// some of its own.
func (s *writerSession) restore(failed settings) {
	for _, set := range []settings{s.applied, failed} {
		for name := range set {
			_ = s.conn.Exec("SET " + name + " = " + s.before[name])
		}
	}
	s.applied = settings{}
}

// remember notes the session's values of settings that are not yet applied.
func (s *writerSession) remember(want settings) error {
	var fresh []string
	for name := range want {
		if !identifier.MatchString(name) {
			return exception(codeUnknownSetting, "UNKNOWN_SETTING", "Unknown setting '%s'", name)
		}
		if _, known := s.applied[name]; !known {
			fresh = append(fresh, quote(name))
			s.before[name] = "DEFAULT"
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	rows, err := s.conn.Query("SELECT name, value FROM system.settings WHERE changed AND name IN ("+strings.Join(fresh, ", ")+")", "TSV")
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	for line := range strings.Lines(string(rows.Data)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		s.before[name] = quote(unescape(value))
	}
	return nil
}

// execute runs q in conn as it is.
func execute(ctx context.Context, e *engine, conn *chdb.Conn, q query, emit func(chdb.Chunk) error) error {
	if err := ctx.Err(); err != nil {
		return exception(codeCancelled, "QUERY_WAS_CANCELLED", "Query was cancelled")
	}
	tag := e.tag()
	defer e.killWhenDone(ctx, tag)()
	if q.Verb != "SELECT" || q.file != "" {
		chunk, err := conn.Query(q.outfile()+"\n"+tag, q.format, q.params...)
		if err != nil {
			return err
		}
		return emit(chunk)
	}
	stream, err := conn.Stream(q.Text+"\n"+tag, q.format)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		chunk, err := stream.Next()
		if err != nil {
			return err
		}
		if err := emit(chunk); err != nil || len(chunk.Data) == 0 {
			return err
		}
	}
}

// asException is err as a client sees it.
func asException(err error) *chdb.Exception {
	var e *chdb.Exception
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, statement.ErrOutfile):
		return exception(codeNotImplemented, "NOT_IMPLEMENTED", "%v", err)
	case errors.Is(err, statement.ErrEmpty), errors.Is(err, statement.ErrMultiple):
		return exception(codeSyntax, "SYNTAX_ERROR", "%v", err)
	}
	return exception(codeUnknown, "UNKNOWN_EXCEPTION", "%v", err)
}

const codeUnknown = 1002
