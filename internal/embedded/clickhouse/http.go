package clickhouse

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/connlimit"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

const (
	maxQuery  = 64 << 20  // of a query in a body that is no INSERT
	maxRead   = 1 << 20   // of an analyst's query; the engine takes a quarter of it
	queryHead = 256 << 10 // of a body, in which an INSERT's data must begin
)

// site is the HTTP interface. Its queries end with ctx.
func (s *Server) site(ctx context.Context) *http.Server {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Ok.\n") }
	mux.HandleFunc("/ping", ok)
	mux.HandleFunc("/replicas_status", ok)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerEarly(w, r, func() {
			http.Error(w, "There is nothing at "+r.URL.Path+": queries go to /",
				http.StatusNotFound)
		})
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.RawQuery == "" {
			ok(w, r)
			return
		}
		problem := s.foreign(r)
		if problem == nil && !s.begin() {
			problem = errStops()
		}
		if problem != nil {
			answerEarly(w, r, func() { writeException(w, problem, "") })
			return
		}
		defer s.tasks.Done()
		s.exchange(ctx, w, r)
	})
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: handshakeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    1 << 20,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx,
				connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// exchange answers one request.
func (s *Server) exchange(queries context.Context, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.cfg.MaxTime, errTimeLimit)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(queries, func() { stop(errStopping) })()
	defer watchHangUp(r, func() { stop(nil) })()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // of the request before
	reply := &reply{
		w: w, r: r, engine: s.engine, each: sendTime, left: s.cfg.hurryTime(),
		tally: tally{began: time.Now()},
	}
	defer reply.close()
	defer reply.hurryAfter(ctx)()
	err := s.perform(ctx, r, reply)
	reply.entry.end(err)
	reply.finish(err)
}

func (s *Server) perform(ctx context.Context, r *http.Request, reply *reply) (err error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut:
	default:
		return exception(codeNotImplemented, "NOT_IMPLEMENTED", "Unsupported method %s", r.Method)
	}
	user, key, err := credentials(r)
	if err != nil {
		return err
	}
	if reply.who, err = s.login(user, key); err != nil {
		return err
	}
	files := s.engine
	deadline, _ := ctx.Deadline()
	if reply.who == reader {
		deadline, reply.each, files = time.Now().Add(bodyTime), readerTime, nil
	} else {
		connlimit.Keep(r.Context()) // analysts must not end an INSERT by their connections
	}
	reply.readDeadline(deadline)
	req, err := readRequest(r, reply.who, files)
	if err != nil {
		return err
	}
	defer func() { req.tables.discard(s.engine, err) }()
	if req.statement.Insert == nil {
		reply.readDeadline(time.Time{})
	}
	if err := reply.prepare(req); err != nil {
		return err
	}
	from := originOf(reply.who, user, r.RemoteAddr)
	reply.entry = s.engine.queryLog.begin(asked{
		Statement: req.statement, from: from, id: req.id, settings: req.settings, over: overHTTP,
		userAgent: r.UserAgent(),
	}, &reply.tally)
	sess, release, err := s.requestSession(from, req)
	if err != nil {
		return err
	}
	defer func() { release(err) }()
	drop, err := req.tables.attach(ctx, sess)
	if err != nil {
		return err
	}
	defer func() { drop(err) }()
	q := query{
		Statement: req.statement, settings: req.settings, params: req.params,
		limited: r.Method == http.MethodGet || r.Method == http.MethodHead,
	}
	if q.Insert == nil {
		return reply.result(ctx, sess, q)
	}
	if !sess.writes() || q.limited {
		return errReadOnly()
	}
	return s.insertBody(ctx, sess, q, reply, req.body)
}

// insertBody inserts what follows an INSERT.
func (s *Server) insertBody(ctx context.Context, sess session, q query, reply *reply, body io.Reader) (err error) {
	rows, err := newSpool(s.engine.spoolDir(), &s.engine.spooled)
	if err != nil {
		return err
	}
	defer func() { s.engine.discard(rows, err) }()
	if _, err := io.WriteString(rows, q.Insert.Inline); err != nil {
		return err
	}
	if _, err := io.Copy(rows, body); err != nil {
		return bodyError(err)
	}
	reply.readDeadline(time.Time{})
	if rows.size == 0 {
		return nil
	}
	insert, err := insertFile(q.Insert, rows.path(), q.Insert.Format, q.settings)
	if err != nil {
		return err
	}
	return reply.run(ctx, sess, query{Statement: insert, format: "Null", params: q.params}, discard)
}

const codeIncorrectData = 117

// credentials are those of the Authorization header, of ClickHouse's own ones,
// or of the address, in that order.
func credentials(r *http.Request) (user, password string, err error) {
	if user, password, ok := r.BasicAuth(); ok {
		return user, password, nil
	}
	if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); scheme != "" {
		return "", "", exception(codeAuthentication, "AUTHENTICATION_FAILED",
			"Authorization by %s is not supported: use a name and a password (Basic)", scheme)
	}
	if user := r.Header.Get("X-ClickHouse-User"); user != "" {
		return user, r.Header.Get("X-ClickHouse-Key"), nil
	}
	values := r.URL.Query()
	user, password = values.Get("user"), values.Get("password")
	if user == "" {
		user = "default"
	}
	if password == "" {
		password = r.Header.Get("X-ClickHouse-Key")
	}
	return user, password, nil
}

// readStatement reads the statement of a request: the query parameter, then the
// body. Of an INSERT the rest of the body is left to be read as its data.
func readStatement(r *http.Request, body io.Reader, most int64) (statement.Statement, error) {
	text := r.URL.Query().Get("query")
	if text != "" {
		text += "\n"
		if s, err := statement.Parse(text); err == nil && s.Insert != nil {
			return s, nil
		}
	}
	head, err := io.ReadAll(io.LimitReader(body, queryHead))
	if err != nil {
		return statement.Statement{}, bodyError(err)
	}
	if s, err := statement.Parse(text + string(head)); err == nil && s.Insert != nil {
		return s, nil
	}
	left := most - int64(len(head))
	rest, err := io.ReadAll(io.LimitReader(body, left+1))
	if err != nil {
		return statement.Statement{}, bodyError(err)
	}
	if int64(len(rest)) > left {
		return statement.Statement{}, exception(codeTooLarge, "QUERY_IS_TOO_LARGE", "The query is larger than %d bytes",
			most)
	}
	return statement.Parse(text + string(head) + string(rest))
}

const codeTooLarge = 223

func bodyError(err error) error {
	return exception(codeIncorrectData, "INCORRECT_DATA", "Cannot read the request's body: %v", err)
}

// statusOf is the HTTP status that ClickHouse gives an exception.
func statusOf(code int) int {
	switch code {
	case 194:
		return http.StatusUnauthorized
	case 192, 193, codeAuthentication, 497, 512:
		return http.StatusForbidden
	case codeBadArguments, 427, 6, 25, 26, 38, 41, 72, 245, 441, 440, 27, 376, 15, 44, 93, 94, 8, 167, 168, 59,
		codeSyntax, codeIncorrectData, 53, 321:
		return http.StatusBadRequest
	case 60, 46, 47, 50, 56, 81, codeUnknownSetting, 62 + 1, codeUnknownFormat, 336, 78, 511, codeNoSession:
		return http.StatusNotFound
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeNotImplemented:
		return http.StatusNotImplemented
	case 209, 76, codeTooMany, codeAborted:
		return http.StatusServiceUnavailable
	case codeQuota:
		return http.StatusTooManyRequests
	case codeTimeout:
		return http.StatusRequestTimeout
	}
	return http.StatusInternalServerError
}
