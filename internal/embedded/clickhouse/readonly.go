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
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/judge"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// readerSession is an analyst's session. Each query runs in a fresh session of
// the engine: there readonly = 1 is set last, behind the client's settings,
// which it freezes.
type readerSession struct {
	engine   *engine
	from     origin
	unjudged bool          // Config.SkipJudge
	reads    chan struct{} // has room while another query may run
	database string
	settings settings // by SET
	limits   map[string]uint64
}

// Limits of one query of the read-only login. A client may lower them.
const (
	readerResultRows  = 20_000_000
	readerResultBytes = 4 << 30
	readerPatience    = 10 * time.Second
	readerLeeway      = 2 * time.Second
	readerElements    = 50_000 // of a query's tree, aliases written out
	readerSettings    = 64 << 10
)

// The judge's own statements take milliseconds and little memory, whatever they
// are about.
const (
	judgeTime     = 2 * time.Second
	judgeSettings = "max_memory_usage = 67108864, max_execution_time = 2"
)

func (s *Server) openReader(from origin, database string) (session, error) {
	r := &readerSession{
		engine: s.engine, from: from, unjudged: s.cfg.SkipJudge, reads: s.reads, database: s.cfg.Database,
		settings: settings{},
	}
	r.limits = map[string]uint64{
		"max_execution_time":        uint64(max(1, s.cfg.MaxReadTime/time.Second)),
		"max_memory_usage":          uint64(s.cfg.analystMemory()),
		"max_result_rows":           readerResultRows,
		"max_result_bytes":          readerResultBytes,
		"max_expanded_ast_elements": readerElements,
	}
	if database == "" {
		return r, nil
	}
	return r, r.use(database)
}

func (r *readerSession) close()       {}
func (r *readerSession) writes() bool { return false }

func (r *readerSession) enter(from origin, database string) (leave func(), err error) {
	r.from = from
	home := r.database
	if database == "" {
		return func() {}, nil
	}
	return func() { r.database = home }, r.use(database)
}

func errReadOnly() error {
	return exception(codeReadOnly, "READONLY", "Cannot execute query in readonly mode")
}

func (r *readerSession) run(ctx context.Context, q query, emit emitter) error {
	if q.Insert != nil {
		return errReadOnly()
	}
	if err := statement.CheckDepth(q.Text); err != nil {
		return err
	}
	j := job{from: r.from, text: q.Text, proof: proofOf(r.from, r.database, r.settings, q), limit: judgeTime}
	if err := r.engine.penalties.check(r.from, q.Text, j.proof); err != nil {
		return err
	}
	done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	conn, err := r.engine.connect(r.database, judgeSettings)
	if err != nil {
		return err
	}
	// What was left behind in the engine stays there.
	defer func() {
		if !isStuck(err) {
			conn.Close()
		}
	}()
	if err = r.carry(ctx, conn, j, q, emit); err == nil {
		r.engine.penalties.prove(r.from, j.proof)
	}
	return err
}

// carry judges q and runs it in conn, each within limits of its own.
func (r *readerSession) carry(ctx context.Context, conn *chdb.Conn, j job, q query, emit emitter) error {
	root, judged := map[string]string{"SET": "Set", "USE": "UseQuery"}[q.Verb], q
	if !r.unjudged {
		err := r.engine.supervise(ctx, j, emit, func(ctx context.Context, _ emitter) (err error) {
			root, err = r.engine.vet(ctx, conn, &judged)
			return err
		})
		if err != nil {
			return err
		}
	}
	q = judged
	q.Text = q.named(r.from.login)
	switch root {
	case "Set":
		return r.set(q.Text)
	case "UseQuery":
		return r.use(useTarget(q.Text))
	}
	want := maps.Clone(r.settings)
	maps.Copy(want, q.settings)
	var own settings
	if q.sections = q.inSections(want["extremes"]); q.sections {
		own = sectionSettings
	}
	if err := r.limit(conn, want, own); err != nil {
		return err
	}
	// The engine's own limit comes first, where it looks at it.
	seconds, _ := strconv.ParseUint(want["max_execution_time"], 10, 64)
	j.limit = time.Duration(seconds)*time.Second + readerLeeway
	return r.engine.explainMemory(r.engine.supervise(ctx, j, emit, func(ctx context.Context, emit emitter) error {
		return execute(ctx, r.engine, conn, q, emit)
	}))
}

// begin waits until another query may run.
func (r *readerSession) begin(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, readerPatience)
	defer cancel()
	select {
	case r.reads <- struct{}{}:
		return func() { <-r.reads }, nil
	case <-ctx.Done():
		return nil, exception(codeTooMany, "TOO_MANY_SIMULTANEOUS_QUERIES", "Too many simultaneous queries: %d run",
			cap(r.reads))
	}
}

// use changes the database, to one whose tables analysts may all read.
func (r *readerSession) use(database string) error {
	conn, err := r.engine.connect("", judgeSettings)
	if err != nil {
		return err
	}
	defer conn.Close()
	if !r.unjudged {
		if err := r.engine.vetDatabase(conn, database); err != nil {
			return err
		}
	}
	if err := conn.Exec("USE " + quoteName(database)); err != nil {
		return err
	}
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
	for name, value := range set {
		if err := r.vetSetting(name, value); err != nil {
			return err
		}
	}
	next := maps.Clone(r.settings)
	maps.Copy(next, set)
	size := 0
	for name, value := range next {
		size += len(name) + len(value)
	}
	if size > readerSettings {
		return exception(codeTooLarge, "QUERY_IS_TOO_LARGE", "The settings of the session have more than %d bytes",
			readerSettings)
	}
	r.settings = next
	return nil
}

// vetSetting admits what analysts may change.
func (r *readerSession) vetSetting(name, value string) error {
	if !r.mayChange(name) {
		return cannotModify(name)
	}
	if name == "session_timezone" && value != "" && !r.unjudged {
		return r.engine.denied(judge.TimeZone(value))
	}
	return nil
}

func cannotModify(name string) error {
	return exception(codeReadOnly, "READONLY", "Cannot modify '%s' setting in readonly mode", name)
}

func (r *readerSession) mayChange(name string) bool {
	verdict := r.engine.rules.Setting(name)
	return verdict == judge.Allowed || verdict == judge.Limited
}

// limit applies what the analyst wants, the limits, which it adds to that, and own
// settings of this package, and freezes them.
func (r *readerSession) limit(conn *chdb.Conn, set, own settings) error {
	delete(set, "readonly") // drivers ask for what is so already
	for name, value := range set {
		if err := r.vetSetting(name, value); err != nil {
			return err
		}
	}
	for name, most := range r.limits {
		if asked, err := strconv.ParseUint(set[name], 10, 64); err != nil || asked == 0 || asked > most {
			set[name] = strconv.FormatUint(most, 10)
		}
	}
	all := maps.Clone(set)
	maps.Copy(all, own)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+" = "+quote(all[name]))
	}
	list = append(list, memorySettings(set["max_memory_usage"])...)
	for _, sql := range []string{"SET " + strings.Join(list, ", "), "SET readonly = 1"} {
		if err := conn.Exec(sql); err != nil {
			return fmt.Errorf("limit the session: %w", err)
		}
	}
	return nil
}
