package clickhouse

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
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
	codeTimeout        = 159
	codeQuota          = 201
	codeTooDeep        = 306
	codeUnexpected     = 101
	codeAborted        = 236
)

func exception(code int, name, format string, args ...any) *chdb.Exception {
	return &chdb.Exception{Code: code, Name: name, Message: fmt.Sprintf(format, args...)}
}

var errCancelled = exception(codeCancelled, "QUERY_WAS_CANCELLED", "Query was cancelled")

// settings are a query's settings by name.
type settings map[string]string

// query is a statement to run.
type query struct {
	statement.Statement
	format   string
	file     string // where the engine writes the result, instead of returning it
	settings settings
	params   []chdb.Param
	limited  bool   // as with HTTP's GET: the engine refuses all but reads
	id       string // that the client has given it

	// What the native protocol says of a result beside its rows. Columns are those
	// of a SELECT, given before its rows; section says what the rows from here on
	// are.
	columns  func([]native.Column)
	section  func(native.Kind)
	sections bool // that the result may have several

	stage    *chdb.Stage   // that another server has asked for; nil for all of it
	progress time.Duration // between two reports while the statement runs; 0 for none
}

// lasts tells whether the engine finishes the statement even when it is
// cancelled.
func (q query) lasts() bool { return q.Verb == "OPTIMIZE" }

// tagged is the text of q with its tag, which stands in front of what may have
// data at its end.
func (q query) tagged(tag string) string {
	if q.Verb == "INSERT" {
		return tag + " " + q.Text
	}
	return q.outfile() + "\n" + tag
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
	// the query. When ctx is done the query is cancelled; so is one whose time is
	// over. After an error that isStuck tells, the session is only to be closed.
	run(ctx context.Context, q query, emit emitter) error
	writes() bool // whether it may insert
	// enter begins a request of a session that goes on after it, in a database
	// that holds until leave is called.
	enter(from origin, database string) (leave func(), err error)
	close()
}

// account is what a login opens.
type account int

const (
	nobody account = iota
	writer
	reader
)

// login checks user and password in constant time. Who names nobody, which the
// native protocol sends as the login default without a password, is an analyst
// where analysts need no password.
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
	case read == 1, password == "" && s.cfg.ReadOnlyPassword == "" && (user == "" || user == s.cfg.User):
		if s.cfg.Cluster != nil {
			return nobody, errNoAnalysts()
		}
		return reader, nil
	}
	return nobody, exception(codeAuthentication, "AUTHENTICATION_FAILED",
		"%s: Authentication failed: password is incorrect, or there is no user with such name.", user)
}

func (s *Server) openSession(from origin, database string) (session, error) {
	if from.who == reader {
		return s.openReader(from, database)
	}
	conn, err := s.engine.connect(database, s.cfg.writerSettings())
	if err != nil {
		return nil, err
	}
	return &writerSession{
		engine: s.engine, from: from, time: s.cfg.MaxTime, conn: conn, applied: settings{},
		before: settings{},
	}, nil
}

// writerSession is a session of the engine: what a client sets, creates and
// uses stays until it closes.
type writerSession struct {
	engine *engine
	from   origin
	time   time.Duration // that a statement has
	conn   *chdb.Conn
	stuck  bool // a statement was left behind in conn, which cannot be closed any more
	shared bool // several requests use it

	// A query's own settings are applied to the session and stay there for the
	// next query, which most often has the same; before is what they replaced.
	applied, before settings
	extremes        string // the setting of this name, by SET

	shards shardClients // of statements ON CLUSTER
}

func (s *writerSession) close() {
	s.shards.close()
	if !s.stuck {
		s.conn.Close()
	}
}

func (s *writerSession) writes() bool { return true }

func (s *writerSession) run(ctx context.Context, q query, emit emitter) error {
	if err := statement.CheckDepth(q.Text); err != nil {
		return err
	}
	if slices.Contains(q.Databases(paramValues(q.params)), engineDatabase) {
		return exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"Database %s is the engine's own: it cannot be dropped, detached or renamed", engineDatabase)
	}
	if sent, err := s.everywhere(ctx, q); sent {
		return err
	}
	j := job{from: s.from, text: q.Text, limit: s.time, lasting: q.lasts()}
	err := s.engine.supervise(ctx, j, emit, func(ctx context.Context,
		emit emitter,
	) error {
		return s.carry(ctx, q, emit)
	})
	s.stuck = isStuck(err)
	return err
}

// carry runs q under supervision.
func (s *writerSession) carry(ctx context.Context, q query, emit emitter) error {
	if q.Verb == "SET" {
		// What the client sets must not be undone after a query of its own.
		if err := s.apply(nil); err != nil {
			return err
		}
	} else {
		want := q.settings
		if q.sections = q.inSections(cmp.Or(q.settings["extremes"], s.extremes)); q.sections {
			want = withSections(want)
		}
		if err := s.apply(want); err != nil {
			return err
		}
	}
	if q.limited {
		if err := s.limit(q); err != nil {
			return err
		}
	}
	q.Text = q.named(s.from.login)
	err := execute(ctx, s.engine, s.conn, q, emit)
	if err == nil && q.Verb == "SET" {
		return s.noteExtremes()
	}
	return err
}

// noteExtremes asks for the setting after a SET.
func (s *writerSession) noteExtremes() error {
	row, err := s.conn.Query("SELECT getSetting('extremes')", "TSV")
	s.extremes, _, _ = strings.Cut(string(row.Data), "\n") // behind which its own extremes follow
	return err
}

func (s *writerSession) enter(from origin, database string) (leave func(), err error) {
	s.from, s.shared = from, true
	row, err := s.conn.Query("SELECT currentDatabase()", "TSVRaw")
	if err != nil {
		return nil, fmt.Errorf("ask for the current database: %w", err)
	}
	home := strings.TrimSuffix(string(row.Data), "\n")
	if database == "" || database == home {
		return func() {}, nil
	}
	return func() { _ = s.conn.Exec("USE " + quoteName(home)) }, s.conn.Exec("USE " + quoteName(database))
}

// limit has only reads run. The engine's readonly cannot be taken back, so that
// statements of a shared session are told apart by their trees.
func (s *writerSession) limit(q query) error {
	if !s.shared {
		return s.conn.Exec("SET readonly = 2")
	}
	switch q.Verb {
	case "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "SET", "USE":
		return nil
	case "SELECT": // or WITH … INSERT
		tree, err := s.conn.Query("EXPLAIN AST "+q.Text, "TSVRaw", q.params...)
		if err != nil || strings.HasPrefix(string(tree.Data), "Select") {
			return err
		}
	}
	return errReadOnly()
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
	rows, err := s.conn.Query("SELECT name, value FROM system.settings WHERE changed AND name IN ("+strings.Join(fresh,
		", ")+")", "TSV")
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
func execute(ctx context.Context, e *engine, conn *chdb.Conn, q query, emit emitter) error {
	if err := ctx.Err(); err != nil {
		return errCancelled
	}
	tag := e.tag(q.id)
	defer e.killWhenDone(ctx, tag)()
	if q.stage != nil {
		if err := conn.SetStage(*q.stage); err != nil {
			return err
		}
		defer func() { _ = conn.SetStage(chdb.Complete) }()
	}
	if q.columns != nil && q.Verb == "SELECT" {
		columns, err := e.resultColumns(conn, q, tag)
		if err != nil {
			return err
		}
		q.columns(columns)
		if err := emit(chdb.Chunk{}); err != nil {
			return err
		}
		if q.sections {
			return e.executeInSections(ctx, conn, q, columns, tag, emit)
		}
	}
	if q.progress > 0 {
		m := &meter{engine: e, tag: tag, every: q.progress, emit: emit}
		emit = m.chunk
		defer m.start()()
	}
	if q.Verb != "SELECT" || q.file != "" {
		chunk, err := conn.Query(q.tagged(tag), q.format, q.params...)
		if err != nil {
			return err
		}
		return emit(chunk)
	}
	return streamed(conn, q.tagged(tag), q, emit)
}

// streamed runs a query and gives its result to emit in chunks, an empty one last.
func streamed(conn *chdb.Conn, text string, q query, emit emitter) error {
	stream, err := conn.Stream(text, q.format, q.params...)
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
	case errors.Is(err, statement.ErrDeep):
		return exception(codeTooDeep, "TOO_DEEP_RECURSION", "%v", err)
	case errors.Is(err, statement.ErrOutfile):
		return exception(codeNotImplemented, "NOT_IMPLEMENTED", "%v", err)
	case errors.Is(err, statement.ErrEmpty), errors.Is(err, statement.ErrMultiple):
		return exception(codeSyntax, "SYNTAX_ERROR", "%v", err)
	}
	return exception(codeUnknown, "UNKNOWN_EXCEPTION", "%v", err)
}

const codeUnknown = 1002
